"""Frames: open scopes of a PrimFunc that collect statements until they are closed.

`T.block`, `T.serial`, `T.allocate`... return frames. A frame is a context manager (so is the
builder usable outside the parser); a `Wrap` may also be opened for the rest of its scope.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ...base.errors import explain
from ...base.span import Span
from ...ir.dtype import DataType
from ...ir.prim_expr import IterVar, PrimExpr, Range, Var
from ...ir.prim_op import const
from ...tir import stmt as st
from ...tir.buffer import Buffer, BufferRegion
from ...tir.function import PrimFunc
from . import block_access

Bound = TypeVar("Bound")


class _State(threading.local):
    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.span: Span | None = None


_STATE = _State()


def set_span(span: Span | None) -> None:
    """The span of the statement that is being read; new statements get it."""
    _STATE.span = span


def emit(stmt: st.Stmt) -> None:
    """Append a statement to the innermost frame."""
    if not _STATE.frames:
        what = "this statement is outside a function"
        raise ValueError(explain(what, instead="use it inside a function under @T.prim_func"))
    if stmt.span is None:
        stmt.span = _STATE.span
    _STATE.frames[-1].stmts.append(stmt)


def open_rest(frame: Wrap) -> Any:
    """Open a frame for the rest of the innermost scope; returns the value that it binds."""
    frame.span = _STATE.span
    _STATE.frames[-1].stmts.append(frame)
    frame.on_open()
    return frame.bound


def innermost() -> Frame | None:
    """The innermost open frame."""
    return _STATE.frames[-1] if _STATE.frames else None


def current(kind: type, name: str) -> Any:
    """The innermost frame, which must be of a kind: `name` is the function that needs it."""
    frame = innermost()
    if not isinstance(frame, kind):
        words = {BlockFrame: "a T.block", FuncFrame: "a prim_func"}
        what = f"{name} belongs directly in {words[kind]}"
        got = "nothing" if frame is None else frame.title
        raise ValueError(explain(what, got=f"inside {got}", instead="move it there"))
    return frame


def enclosing(kind: type) -> Any:
    """The innermost open frame of a kind, or None."""
    return next((f for f in reversed(_STATE.frames) if isinstance(f, kind)), None)


def loop_range(var: Var) -> Range | None:
    """The range of an open loop's variable."""
    for frame in reversed(_STATE.frames):
        if isinstance(frame, ForFrame):
            for loop_var, dom in zip(frame.loop_vars, frame.doms, strict=True):
                if loop_var is var:
                    return dom
    return None


def body_of(stmts: list[Any]) -> st.Stmt:
    """One statement from those of a frame; a `Wrap` among them holds all that follow it."""
    rest: list[st.Stmt] = []
    for item in reversed(stmts):
        if isinstance(item, Wrap):
            body = st.seq(*reversed(rest)) if rest else st.Evaluate(0)
            stmt = item.wrap(body)
            stmt.span = item.span
            rest = [stmt]
        else:
            rest.append(item)
    return st.seq(*reversed(rest)) if rest else st.Evaluate(0)


class Frame:
    """An open scope."""

    title = "a scope"

    def __init__(self) -> None:
        self.stmts: list[Any] = []
        self.span: Span | None = None

    @property
    def bound(self) -> Any:
        """The value that `with frame as ...` binds."""
        return None

    def __enter__(self) -> Any:
        self.span = _STATE.span
        _STATE.frames.append(self)
        return self.bound

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        _STATE.frames.remove(self)
        if kind is None:
            self.close()

    def close(self) -> None:
        """Turn the statements into one and hand it to the frame around."""
        raise NotImplementedError

    def emit(self, stmt: st.Stmt) -> None:
        """Hand the finished statement to the frame around."""
        stmt.span = self.span
        emit(stmt)

    def buffers(self) -> list[Buffer]:
        """The buffers that this frame declares."""
        return [b for s in self.stmts if isinstance(s, Wrap) for b in s.declared]


class Wrap(Frame):
    """A scope made of one statement around a body: let, allocate, attr, assert..."""

    def __init__(
        self,
        wrap: Callable[[st.Stmt], st.Stmt],
        bound: PrimExpr | Buffer | None = None,
        declared: tuple[Buffer, ...] = (),
        title: str = "a scope",
    ) -> None:
        super().__init__()
        self.wrap = wrap
        self._bound = bound
        self.declared = declared
        self.title = title

    @property
    def bound(self) -> Any:
        return self._bound

    def on_open(self) -> None:
        """Called when the frame is opened for the rest of a scope."""

    def close(self) -> None:
        self.emit(self.wrap(body_of(self.stmts)))

    def buffers(self) -> list[Buffer]:
        return [*self.declared, *super().buffers()]


class FuncFrame(Frame):
    """A PrimFunc that is being built; `result` is the function once the frame is closed."""

    title = "a prim_func"

    def __init__(self, name: str, is_private: bool = False) -> None:
        super().__init__()
        self.name = name
        self.is_private = is_private
        self.params: list[Var] = []
        self.buffer_map: dict[Var, Buffer] = {}
        self.attrs: dict[str, Any] = {}
        self.ret_type: Any = None
        self.root_buffers: list[Buffer] = []
        self.env_threads: dict[Var, IterVar] = {}
        self.bare: dict[st.Block, st.Block] = {}  # blocks without the inferred regions
        self.result: PrimFunc | None = None

    def close(self) -> None:
        attrs = self.attrs
        if not self.is_private and "global_symbol" not in attrs:
            attrs = {"global_symbol": self.name, **attrs}
        body = self._with_root(body_of(self.stmts))
        self.result = PrimFunc(
            self.params, body, self.ret_type, self.buffer_map, attrs, span=self.span
        )

    def _with_root(self, body: st.Stmt) -> st.Stmt:
        """Blocks are below a root block: make one unless the body is one already."""
        is_root = isinstance(body, st.BlockRealize) and not body.block.iter_vars
        if not self.root_buffers and (is_root or not block_access.has_block(body)):
            bare = self.bare.get(body.block) if is_root else None
            return body if bare is None else body.replace(block=bare)
        block = st.Block((), (), (), "root", body, None, self.root_buffers, span=self.span)
        return st.BlockRealize((), const(True, "bool"), block, span=self.span)

    def buffers(self) -> list[Buffer]:
        return [*self.buffer_map.values(), *self.root_buffers, *super().buffers()]


class BlockFrame(Frame):
    """`with T.block(name)`"""

    title = "a T.block"

    def __init__(self, name: str, no_realize: bool) -> None:
        super().__init__()
        self.name = name
        self.no_realize = no_realize
        self.iter_vars: list[IterVar] = []
        self.iter_values: list[PrimExpr] = []
        self.reads: list[BufferRegion] | None = None
        self.writes: list[BufferRegion] | None = None
        self.init: st.Stmt | None = None
        self.alloc_buffers: list[Buffer] = []
        self.match_buffers: list[st.MatchBufferRegion] = []
        self.annotations: dict[str, Any] = {}
        self.predicate: PrimExpr | None = None

    def close(self) -> None:
        block = st.Block(
            self.iter_vars,
            self.reads or (),
            self.writes or (),
            self.name,
            body_of(self.stmts),
            self.init,
            self.alloc_buffers,
            self.match_buffers,
            self.annotations,
            span=self.span,
        )
        if self.reads is None or self.writes is None:
            visible = [*self.buffers(), *(b for f in _STATE.frames for b in f.buffers())]
            bare = block
            block = block_access.complete(block, visible, self.reads is None, self.writes is None)
            if isinstance(frame := innermost(), FuncFrame):
                frame.bare[block] = bare
        if self.no_realize:
            self.emit(block)
        else:
            predicate = const(True, "bool") if self.predicate is None else self.predicate
            self.emit(st.BlockRealize(self.iter_values, predicate, block))

    def buffers(self) -> list[Buffer]:
        matched = [m.buffer for m in self.match_buffers]
        return [*self.alloc_buffers, *matched, *super().buffers()]


class InitFrame(Frame):
    """`with T.init()`"""

    title = "T.init"

    def __enter__(self) -> Any:
        block = current(BlockFrame, "T.init")
        if block.init is not None:
            what = f"block {block.name!r} has a T.init already"
            raise ValueError(explain(what, instead="write one init for the block"))
        return super().__enter__()

    def close(self) -> None:
        current(BlockFrame, "T.init").init = body_of(self.stmts)


class ForFrame(Frame, Generic[Bound]):
    """One or several nested loops: `for i, j in T.grid(4, 8)`."""

    title = "a loop"

    def __init__(
        self,
        doms: list[Range],
        kind: st.ForKind,
        thread_tag: str = "",
        annotations: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.doms = doms
        self.kind = kind
        self.thread_tag = thread_tag
        self.annotations = dict(annotations or {})
        self.loop_vars = [Var("", dom.extent.dtype) for dom in doms]

    if TYPE_CHECKING:  # the parser reads the loop, Python never runs it

        def __iter__(self) -> Iterator[Bound]: ...

    @property
    def bound(self) -> Any:
        return self.loop_vars[0] if len(self.loop_vars) == 1 else list(self.loop_vars)

    def close(self) -> None:
        body = body_of(self.stmts)
        thread: IterVar | None = None
        if self.kind is st.ForKind.THREAD_BINDING:
            thread_var = Var("", self.loop_vars[0].dtype)
            thread = IterVar(None, thread_var, IterVar.ThreadIndex, self.thread_tag)
        for var, dom in zip(reversed(self.loop_vars), reversed(self.doms), strict=True):
            annotations = self.annotations
            body = st.For(var, dom.min, dom.extent, self.kind, body, thread, annotations, self.span)
        emit(body)


class WhileFrame(Frame):
    """`while condition`"""

    title = "a while loop"

    def __init__(self, condition: PrimExpr) -> None:
        super().__init__()
        self.condition = condition

    def close(self) -> None:
        self.emit(st.While(self.condition, body_of(self.stmts)))


class IfFrame(Frame):
    """`if condition`: filled by `then()` and `otherwise()`."""

    title = "an if"

    def __init__(self, condition: PrimExpr) -> None:
        super().__init__()
        self.condition = condition
        self.then_case: st.Stmt | None = None
        self.else_case: st.Stmt | None = None

    def close(self) -> None:
        if self.then_case is None:
            what = "an if needs a then-branch"
            raise ValueError(explain(what, instead="open `with T.Then():` inside it"))
        self.emit(st.IfThenElse(self.condition, self.then_case, self.else_case))


class BranchFrame(Frame):
    """One branch of the innermost `IfFrame`."""

    title = "a branch"

    def __init__(self, is_then: bool) -> None:
        super().__init__()
        self.is_then = is_then

    def close(self) -> None:
        parent = innermost()
        if not isinstance(parent, IfFrame):
            raise ValueError(explain("T.Then and T.Else must be directly in T.If"))
        if self.is_then:
            parent.then_case = body_of(self.stmts)
        else:
            parent.else_case = body_of(self.stmts)


class LaunchFrame(Wrap):
    """`T.launch_thread`: its thread axis gets the extent."""

    title = "T.launch_thread"


def pointer_type(dtype: DataType | str, scope: str) -> tuple[str, str]:
    """The type annotation of a pointer variable."""
    pointee = DataType(dtype)
    return ("int8" if pointee.is_bool and pointee.lanes == 1 else str(pointee), scope or "global")
