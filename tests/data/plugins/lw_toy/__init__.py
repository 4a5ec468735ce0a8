"""A target of another package: its code is a text of loops; a simulator says what they compute."""

from loopwright import register_legalize, relax, sched, tir
from loopwright.backend import CompiledModel, TargetBackend
from loopwright.ir.functor import Visitor


class Text(Visitor):  # the code generator: a line for each loop, condition and store of a kernel
    def __init__(self, name, func):
        self.lines, self.depth = [], 0
        self.line(f"kernel {name}({', '.join(p.name for p in func.params)})", func.body)

    def line(self, text, inside=()):
        self.lines.append("  " * self.depth + text)
        self.depth += 1
        self.visit(inside)
        self.depth -= 1

    def visit_For(self, loop):
        self.line(f"loop {loop.loop_var.name} < {loop.extent}", loop.body)

    def visit_IfThenElse(self, branch):
        self.line(f"if {branch.condition}", branch.then_case)
        self.line("else", branch.else_case or ())

    def visit_BufferStore(self, store):
        self.line(f"{store.buffer.name}[{', '.join(map(str, store.indices))}] = {store.value}")


class ToyModel(CompiledModel):  # what `compile` returns
    form, runs, suffix, texts = "toy text", True, ".toy", {}

    def __init__(self, lowered):
        super().__init__(lowered)
        self.texts = {name: "\n".join(Text(name, f).lines) for name, f in lowered.kernels.items()}

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
    if more or any(v.iter_type != tir.IterVar.DataPar for v in sch.get(block).iter_vars):
        return None
    sch.fuse(*sch.get_loops(block))
    return sch.mod["main"]


TOY = TargetBackend("toy", graph_pipeline, ToyModel, ToyModel, native_graphs=False, keys=())
