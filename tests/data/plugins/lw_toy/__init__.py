"""A target of another package: its code is loops as text, run by a simulator."""

from loopwright import LoopwrightError, register_legalize, relax, sched, tir
from loopwright.backend import CompiledModel, TargetBackend, named_apart


def text(stmt, pad):  # the code generator: a line for each statement of a kernel
    match stmt:
        case tir.SeqStmt(seq=parts):
            return "".join(text(part, pad) for part in parts)
        case tir.DeclBuffer(body=body):
            return text(body, pad)
        case tir.Allocate(buffer_var=memory, extents=(size, *_), body=body):
            return f"{pad}allocate {memory.name}[{size}]\n" + text(body, pad)
        case tir.For(loop_var=i, extent=n, body=body):
            return f"{pad}loop {i.name} < {n}\n" + text(body, pad + "  ")
        case tir.IfThenElse(condition=test, then_case=yes, else_case=no):
            other = "" if no is None else f"{pad}else\n" + text(no, pad + "  ")
            return f"{pad}if {test}\n" + text(yes, pad + "  ") + other
        case tir.BufferStore(buffer=buffer, indices=(at,), value=value):
            return f"{pad}{buffer.name}[{at}] = {value}\n"
    raise LoopwrightError(f"no text for {type(stmt).__name__}")


def kernel(name, func):
    func = named_apart(func)
    return f"kernel {name}({', '.join(p.name for p in func.params)})\n{text(func.body, '  ')}"


class ToyModel(CompiledModel):  # what `compile` returns
    form, runs, suffix, texts = "toy text", True, ".toy", {}

    def __init__(self, lowered):
        super().__init__(lowered)
        self.texts = {name: kernel(name, func) for name, func in lowered.kernels.items()}

    def __getitem__(self, name):
        return relax.interpreter.Interpreter(self.mod)[name]


def graph_pipeline(target, **options):
    return relax.pipeline.zero_pipeline().insert_after("FuseTIR", sched.ApplyDefaultSchedule())


@register_legalize("relax.nn.relu", target="toy")
def relu(bb, call):
    return relax.op.maximum(call.args[0], relax.const(0, call.struct_info.dtype))


@sched.register_schedule_rule("one loop", "toy")
def one_loop(func, target):
    sch = tir.Schedule(func)
    block, *more = sch.get_child_blocks(sch.get_block("root"))
    if not more and all(v.iter_type == tir.IterVar.DataPar for v in sch.get(block).iter_vars):
        sch.fuse(*sch.get_loops(block))
        return sch.mod["main"]


TOY = TargetBackend("toy", graph_pipeline, ToyModel, ToyModel, native_graphs=False, keys=())
