"""Entries: functions of the calling convention of `abi.py` around kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from loopwright.codegen.llvm.abi import c_string, descriptor, pack_dtype, symbol
from loopwright.codegen.llvm.types import llvm_type
from loopwright.ir.dtype import DataType
from loopwright.runtime.signature import Argument


def _narrowed(emit: Callable[[str], None], wide: str, narrow: str, value: str) -> str:
    """`value` of the type i64 or double as a typed operand of another width."""
    if wide == narrow:
        return f"{wide} {value}"
    text = f"{'fptrunc' if wide == 'double' else 'trunc'} {wide} {value} to {narrow}"
    if narrow == "i1":
        text = f"icmp ne i64 {value}, 0"
    emit(f"{value}.n = {text}")
    return f"{narrow} {value}.n"


def emit_entry(
    name: str,
    kernel: str,
    params: Sequence[Argument],
    results: Sequence[Argument] = (),
    symbols: Mapping[str, str] | None = None,
    derived: str | None = None,
    shown: str = "",
    returned: tuple[int, str, str] | None = None,
    sizes: Sequence[int] = (),
) -> str:
    """An entry `@name` that checks its arguments, allocates results and calls `i32 @kernel`.

    The kernel takes the parameters in order (data pointers, scalars of their type), then the
    results' data pointers, then each symbolic dimension: those of `symbols` as the LLVM type given
    there, then the others as i64 in order of first appearance. It returns 0, or another number after
    raising. A dimension is a number, a symbol of a parameter, or `"=k"`: number k of those that
    `i32 @derived(symbols as i64..., scalars as i64, ptr numbers)` computes (a parameter's is compared
    with it); `sizes` are the numbers of those scalar parameters. `shown` is what messages call the function. `returned`
    says how the scalar is packed (type index, type in memory, conversion to 64 bits) that the kernel
    puts where its last parameter points to. Declarations are not included.
    """
    kinds = dict(symbols or {})
    known: dict[str, int] = {name_: k for k, name_ in enumerate(kinds)}
    given = [_named_dims(i, param) for i, param in enumerate(params)]
    for dim in (d for dims in given for d in dims):
        if isinstance(dim, str):
            known.setdefault(dim, len(known))
    shaped = {known[d] for dims in given for d in dims if isinstance(d, str)}
    visible = [k for name_, k in known.items() if name_[0] != "?"]
    numbers = {int(d[1:]) for p in (*params, *results) for d in p.dims or () if _derived(d)}
    shown = shown or name
    code = [c_string(f"{name}.name", shown)]
    for i, param in enumerate(params):
        dims = [symbol(known[d]) if isinstance(d, str) else d for d in given[i]]
        code.append(descriptor(f"{name}.d{i}", shown, param.name, i, param.dtype, dims))
    n = len(known)
    body = [f"define i32 @{name}(ptr %self, ptr %args, i32 %count, ptr %ret) {{", "entry:"]
    emit = lambda line: body.append(f"  {line}")  # noqa: E731
    emit(f"%vars = alloca [{max(n, 1)} x i64], align 8")
    emit("%slot = alloca i64, align 8")
    if derived is not None:
        emit(f"%derived = alloca [{max(numbers) + 1} x i64], align 8")
    for i, result in enumerate(results):
        emit(f"%shape{i} = alloca [{max(len(result.dims or ()), 1)} x i64], align 8")
    if len(results) > 1:
        emit(f"%values = alloca [{len(results)} x {{ i64, ptr }}], align 8")
    for k in range(n):
        emit(f"%vi{k} = getelementptr i64, ptr %vars, i64 {k}")
        # What no shape defines is an offset: the pointers that the kernel gets have it already.
        emit(f"store i64 {-1 if k in shaped else 0}, ptr %vi{k}, align 8")

    def check(label: str, failed: str, to: str = "fail") -> None:
        emit(f"br i1 {failed}, label %{to}, label %{label}")
        body.append(f"{label}:")

    emit(f"%rc = call i32 @lw_arg_count(i32 %count, i32 {len(params)}, ptr @{name}.name)")
    emit("%bad = icmp ne i32 %rc, 0")
    check("counted", "%bad")
    values = []
    for i, param in enumerate(params):
        emit(f"%p{i} = getelementptr i8, ptr %args, i64 {16 * i}")
        if not param.is_tensor:
            kind, wide = ("float", "double") if "float" in param.dtype else ("int", "i64")
            emit(f"%r{i} = call i32 @lw_arg_{kind}(ptr %p{i}, ptr @{name}.d{i}, ptr %slot)")
            emit(f"%b{i} = icmp ne i32 %r{i}, 0")
            check(f"read{i}", f"%b{i}")
            emit(f"%v{i} = load {wide}, ptr %slot, align 8")
            values.append(_narrowed(emit, wide, llvm_type(DataType(param.dtype)), f"%v{i}"))
            continue
        emit(f"%t{i} = call ptr @lw_arg_tensor(ptr %p{i}, ptr @{name}.d{i}, ptr %vars)")
        emit(f"%b{i} = icmp eq ptr %t{i}, null")
        check(f"read{i}", f"%b{i}")
        emit(f"%a{i} = load ptr, ptr %t{i}, align 8")
        emit(f"%op{i} = getelementptr i8, ptr %t{i}, i64 40")
        emit(f"%o{i} = load i64, ptr %op{i}, align 8")
        emit(f"%v{i} = getelementptr i8, ptr %a{i}, i64 %o{i}")
        values.append(f"ptr %v{i}")
    for k in range(n):
        emit(f"%s{k} = load i64, ptr %vi{k}, align 8")
    if derived is not None:
        from_args = (f"i64 %v{i}" for i in sizes)
        all_sizes = ", ".join([*(f"i64 %s{k}" for k in visible), *from_args, "ptr %derived"])
        emit(f"call i32 @{derived}({all_sizes})")
        for k in sorted(numbers):
            emit(f"%ep{k} = getelementptr i64, ptr %derived, i64 {k}")
            emit(f"%e{k} = load i64, ptr %ep{k}, align 8")
    for i, param in enumerate(params):
        for j, dim in enumerate(param.dims or ()):
            if _derived(dim):
                got, want = f"i64 %s{known[str(given[i][j])]}", f"i64 %e{dim[1:]}"
                where = f"ptr @{name}.d{i}, i64 {j}"
                emit(f"%dc{i}.{j} = call i32 @lw_check_dim({where}, {got}, {want})")
                emit(f"%db{i}.{j} = icmp ne i32 %dc{i}.{j}, 0")
                check(f"fits{i}.{j}", f"%db{i}.{j}")
    for i, result in enumerate(results):
        for j, dim in enumerate(result.dims or ()):
            emit(f"%z{i}.{j} = getelementptr i64, ptr %shape{i}, i64 {j}")
            size = str(dim)
            if isinstance(dim, str):
                size = f"%e{dim[1:]}" if dim[0] == "=" else f"%s{known[dim]}"
            emit(f"store i64 {size}, ptr %z{i}.{j}, align 8")
        emit(
            f"%block{i} = call ptr @lw_tensor_alloc(i32 {len(result.dims or ())}, ptr %shape{i}, "
            f"i32 {pack_dtype(result.dtype)})"
        )
        emit(f"%nb{i} = icmp eq ptr %block{i}, null")
        check(f"made{i}", f"%nb{i}", f"drop{i}")
        emit(f"%out{i} = load ptr, ptr %block{i}, align 8")
        values.append(f"ptr %out{i}")
    for k in visible:
        kind = list(kinds.values())[k] if k < len(kinds) else "i64"
        values.append(_narrowed(emit, "i64", kind, f"%s{k}"))
    if returned is not None:
        values.append("ptr %slot")
    emit(f"%code = call i32 @{kernel}({', '.join(values)})")
    emit("%failed = icmp ne i32 %code, 0")
    check("finished", "%failed", f"drop{len(results)}" if results else "fail")
    if len(results) == 1:
        emit("%ok = call i32 @lw_ret_tensor(ptr %block0, ptr %ret)")
        emit("ret i32 %ok")
    elif results:
        for i in range(len(results)):
            emit(f"%w{i} = getelementptr {{ i64, ptr }}, ptr %values, i64 {i}")
            emit(f"%k{i} = call i32 @lw_ret_tensor(ptr %block{i}, ptr %w{i})")
        emit(f"%ok = call i32 @lw_ret_tuple(ptr %values, i32 {len(results)}, ptr %ret)")
        emit("ret i32 %ok")
    else:
        _emit_returned(emit, returned)
        emit("ret i32 0")
    for i in reversed(range(1, len(results) + 1)):
        body.append(f"drop{i}:")
        emit(f"call void @lw_tensor_drop(ptr %block{i - 1})")
        emit(f"br label %drop{i - 1}")
    if results:
        body.append("drop0:")
        emit("br label %fail")
    body += ["fail:", "  ret i32 -1", "}", ""]
    return "".join(code) + "\n".join(body)


def _derived(dim: int | str) -> bool:
    return isinstance(dim, str) and dim[0] == "="


def _named_dims(i: int, param: Argument) -> list[int | str]:
    """A parameter's dimensions; those that are computed get a name of their own, with a `?`."""
    dims = param.dims or ()
    return [f"?{i}.{j}" if _derived(d) else d for j, d in enumerate(dims)]


def _emit_returned(emit: Callable[[str], None], returned: tuple[int, str, str] | None) -> None:
    """Pack the scalar in `%slot` into `%ret`."""
    if returned is None:
        return
    index, memory, conversion = returned
    wide = "double" if index == 3 else "i64"
    value = "%scalar"
    emit(f"{value} = load {memory}, ptr %slot, align 8")
    if conversion:
        emit(f"%packed = {conversion} {memory} {value} to {wide}")
        value = "%packed"
    emit(f"store i64 {index}, ptr %ret, align 8")
    emit("%payload = getelementptr i8, ptr %ret, i64 8")
    emit(f"store {wide} {value}, ptr %payload, align 8")
