"""Editing a dataflow block binding by binding: add, remove, replace."""

from __future__ import annotations

from ...base.errors import CallValueError, explain
from ...ir.module import IRModule
from ...relax.analysis.variables import bound_vars, remove_all_unused, udchain, used_vars
from ...relax.expr import (
    Binding,
    BindingBlock,
    DataflowBlock,
    DataflowVar,
    Expr,
    Function,
    Var,
    VarBinding,
)
from ...relax.functor import GraphRewriter


class DataflowBlockRewrite:
    """A dataflow block of a function under edit. Neither is changed: `mutated_dfb` and
    `mutated_root_fn` give the new ones.

        rewrite = DataflowBlockRewrite(block, func)
        rewrite.add(relax.op.nn.relu(x), name="y")
        rewrite.replace_all_uses(x, y)
        func = rewrite.mutated_root_fn()
    """

    def __init__(self, dfb: DataflowBlock, root_fn: Function) -> None:
        """Raises CallValueError if the block is not in the function."""
        self.dfb = dfb
        self.root_fn = self._original = root_fn
        self._edit()

    def replace_all_uses(self, old_var: Var, new_var: Var) -> None:
        """Use one variable in place of another in the whole function; both stay defined."""
        bound = bound_vars(self.root_fn)
        for var in (old_var, new_var):
            if var not in bound:
                what = f"the function does not define {var.name_hint}"
                raise CallValueError(explain(what, got=[v.name_hint for v in bound]))
        self._edit(renamed={old_var: new_var})

    def add_binding(self, binding: Binding) -> None:
        """Insert a binding after the last one that it uses."""
        if binding.var in bound_vars(self.root_fn):
            what = f"{binding.var.name_hint} is defined already"
            raise CallValueError(explain(what, instead="bind a new variable"))
        self._edit(added=binding)

    def add(self, expr: Expr, name: str | None = None, is_dfvar: bool = False) -> None:
        """Bind an expression to a new variable after the last binding that it uses.

        is_dfvar: whether the variable is visible in this block only. Without a name it is `tmp`,
        or tmp1, tmp2, ... where that is taken.
        """
        names = {v.name_hint for v in bound_vars(self.root_fn)}
        if name is None:
            name, n = "tmp", 0
            while name in names:
                n += 1
                name = f"tmp{n}"
        var = (DataflowVar if is_dfvar else Var)(name, expr.struct_info)
        self.add_binding(VarBinding(var, expr))

    def remove_unused(self, var: Var, allow_undef: bool = False) -> None:
        """Remove the binding of a variable of this block.

        Raises CallValueError if it is used, or (unless `allow_undef`) not bound in this block.
        """
        if var not in [b.var for b in self.dfb.bindings]:
            if allow_undef:
                return
            what = f"the block does not bind {var.name_hint}"
            raise CallValueError(explain(what, instead="allow_undef=True, if that is intended"))
        users = udchain(self.root_fn)[var]
        if users or var in used_vars(self.root_fn.body.body):
            what = f"{var.name_hint} is used"
            got = f"by {', '.join(u.name_hint for u in users) or 'the result of the function'}"
            raise CallValueError(explain(what, got=got, instead="replace its uses first"))
        self._edit(dropped=[var])

    def remove_all_unused(self) -> None:
        """Remove the unused bindings without side effects, of other blocks too."""
        used = set(bound_vars(remove_all_unused(self.root_fn)))
        self._edit(dropped=[v for v in bound_vars(self.root_fn) if v not in used])

    def mutated_dfb(self) -> DataflowBlock:
        """The current block."""
        return self.dfb

    def mutated_root_fn(self) -> Function:
        """The current function."""
        return self.root_fn

    def mutate_irmodule(self, irmodule: IRModule) -> IRModule:
        """A module with the current function instead of the original one."""
        changed = {g: self.root_fn for g, f in irmodule.functions.items() if f is self._original}
        return irmodule.replace(functions={**irmodule.functions, **changed})

    def _edit(
        self,
        added: Binding | None = None,
        dropped: list[Var] | None = None,
        renamed: dict[Var, Var] | None = None,
    ) -> None:
        editor = _Editor(self.dfb, added, dropped or [])
        editor.var_map.update(renamed or {})
        root_fn = editor.function(self.root_fn)
        if editor.edited is None:
            what = "the dataflow block is not in the function"
            hint = "a block of func.body.blocks; one whose bindings are all removed is gone"
            raise CallValueError(explain(what, instead=hint))
        self.root_fn, self.dfb = root_fn, editor.edited


class _Editor(GraphRewriter):
    def __init__(self, block: DataflowBlock, added: Binding | None, dropped: list[Var]) -> None:
        super().__init__()
        self.target, self.added, self.dropped = block, added, set(dropped)
        self.edited: DataflowBlock | None = None

    def block(self, block: BindingBlock) -> BindingBlock:
        is_target = block is self.target
        if self.dropped:
            rest = [b for b in block.bindings if b.var not in self.dropped]
            block = block if len(rest) == len(block.bindings) else block.replace(bindings=rest)
        if is_target and self.added is not None:
            needed = used_vars(self.added.value)
            positions = [n for n, b in enumerate(block.bindings) if b.var in needed]
            at = max(positions, default=0) + 1
            bindings = (*block.bindings[:at], self.added, *block.bindings[at:])
            block = block.replace(bindings=bindings)
        new = super().block(block)
        if is_target:
            assert isinstance(new, DataflowBlock)
            self.edited = new
        return new
