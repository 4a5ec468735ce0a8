"""Entries: functions with the calling convention of `abi.py` around kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from loopwright.codegen.llvm.abi import ANY, c_string, descriptor, pack_dtype, symbol
from loopwright.codegen.llvm.types import llvm_type
from loopwright.ir.dtype import DataType
from loopwright.runtime.signature import Argument


@dataclass
class Entry:
    """An entry `@name` that checks its arguments, allocates results and calls `i32 @kernel`. With
    None and memory for each result after the parameters, it writes there and returns nothing.

    The kernel takes the parameters in order (data pointers, scalars of their type), then the
    results' data pointers, then each symbolic dimension: those of `symbols` with the LLVM type
    given there, the others as i64 in order of first appearance. It returns 0, or a non-zero number
    after raising. A dimension is a number, a symbol of a parameter, or `"=k"`: number k of those
    that `i32 @derived(symbols as i64..., scalars as i64, ptr numbers)` computes (a parameter's is
    checked against it; non-zero after raising, for a result that is too large); `sizes` are the indices of those scalar parameters. `shown` is the
    function's name in messages. `returned` says how the scalar that the kernel stores through its
    last parameter is packed (type index, type in memory, conversion to 64 bits).
    """

    name: str
    kernel: str
    params: Sequence[Argument]
    results: Sequence[Argument] = ()
    symbols: Mapping[str, str] = field(default_factory=dict)
    derived: str | None = None
    shown: str = ""
    returned: tuple[int, str, str] | None = None
    sizes: Sequence[int] = ()

    def __post_init__(self) -> None:
        self.dims = [_named_dims(i, param) for i, param in enumerate(self.params)]
        self.index_of = {name: k for k, name in enumerate(self.symbols)}  # index of each dimension
        for dim in (d for dims in self.dims for d in dims):
            if isinstance(dim, str):
                self.index_of.setdefault(dim, len(self.index_of))
        self.visible = [k for name, k in self.index_of.items() if name[0] != "?"]
        self.lines: list[str] = []
        self.values: list[str] = []  # the kernel's arguments

    def text(self) -> str:
        """The definition and its constants, without declarations of its callees."""
        shown = self.shown or self.name
        constants = [c_string(f"{self.name}.name", shown)]
        for i, param in enumerate(self.params):
            dims = [self.code_of(d) for d in self.dims[i]]
            name = f"{self.name}.d{i}"
            constants.append(descriptor(name, shown, param.name, i, param.dtype, dims))
        for i, result in enumerate(self.results):
            dims = [ANY if _derived(d) else self.code_of(d) for d in result.dims or ()]
            name = f"{self.name}.r{i}"
            constants.append(descriptor(name, shown, result.name, -1 - i, result.dtype, dims))
            constants.append(c_string(f"{self.name}.a{i}", f"{shown}: result {result.name}"))
        self.allocate()
        self.read_arguments()
        self.compute_dims()
        self.find_results()
        self.call_kernel()
        self.hand_out()
        self.fail()
        head = f"define i32 @{self.name}(ptr %self, ptr %args, i32 %count, ptr %ret) {{"
        return "".join(constants) + "\n".join([head, "entry:", *self.lines, "}", ""])

    def code_of(self, dim: int | str) -> int:
        """A dimension in a descriptor."""
        return symbol(self.index_of[dim]) if isinstance(dim, str) else dim

    def emit(self, line: str) -> None:
        self.lines.append(f"  {line}")

    def check(self, label: str, failed: str, error: str = "fail") -> None:
        """Branch to an error path if `failed`, else continue at a new label."""
        self.emit(f"br i1 {failed}, label %{error}, label %{label}")
        self.lines.append(f"{label}:")

    def narrowed(self, wide: str, narrow: str, value: str) -> str:
        """`value` of type i64 or double as an operand of its narrower type."""
        if wide == narrow:
            return f"{wide} {value}"
        kind = "inttoptr" if narrow == "ptr" else "fptrunc" if wide == "double" else "trunc"
        text = f"{kind} {wide} {value} to {narrow}"
        if narrow == "i1":
            text = f"icmp ne i64 {value}, 0"
        elif narrow == "ptr":
            text = f"inttoptr i64 {value} to ptr"
        self.emit(f"{value}.n = {text}")
        return f"{narrow} {value}.n"

    def allocate(self) -> None:
        """Stack slots: dimensions, a scalar, derived dimensions, shapes, packed results."""
        shaped = {self.index_of[d] for dims in self.dims for d in dims if isinstance(d, str)}
        self.emit(f"%vars = alloca [{max(len(self.index_of), 1)} x i64], align 8")
        self.emit("%slot = alloca i64, align 8")
        if self.derived is not None:
            self.emit(
                f"%derived = alloca [{max(self.derived_dims(), default=0) + 1} x i64], align 8"
            )
        for i, result in enumerate(self.results):
            self.emit(f"%shape{i} = alloca [{max(len(result.dims or ()), 1)} x i64], align 8")
            self.emit(f"%own{i} = alloca ptr, align 8")  # the block that is to be freed, or null
            self.emit(f"store ptr null, ptr %own{i}, align 8")
            self.emit(f"%to{i} = alloca ptr, align 8")
        if len(self.results) > 1:
            self.emit(f"%values = alloca [{len(self.results)} x {{ i64, ptr }}], align 8")
        for k in range(len(self.index_of)):
            self.emit(f"%vi{k} = getelementptr i64, ptr %vars, i64 {k}")
            # A symbol that no shape defines is an offset, already added to the pointers that the
            # kernel gets.
            self.emit(f"store i64 {-1 if k in shaped else 0}, ptr %vi{k}, align 8")

    def derived_dims(self) -> list[int]:
        """The indices of the dimensions that are computed."""
        dims = [d for a in (*self.params, *self.results) for d in a.dims or ()]
        return sorted({int(d[1:]) for d in dims if _derived(d)})

    def read_arguments(self) -> None:
        count, name = f"i32 %count, i32 {len(self.params)}", f"ptr @{self.name}.name"
        if self.results:
            placed = f"ptr %args, {count}, i32 {len(self.results)}, {name}"
            self.emit(f"%rc = call i32 @lw_arg_placed({placed})")
            self.emit("%placed = icmp ne i32 %rc, 0")
        else:
            self.emit(f"%rc = call i32 @lw_arg_count({count}, {name})")
        self.emit("%bad = icmp slt i32 %rc, 0")
        self.check("counted", "%bad")
        for i, param in enumerate(self.params):
            self.emit(f"%p{i} = getelementptr i8, ptr %args, i64 {16 * i}")
            if param.is_tensor:
                self.read_tensor(i)
            else:
                self.read_scalar(i, param.dtype)
        for k in range(len(self.index_of)):
            self.emit(f"%s{k} = load i64, ptr %vi{k}, align 8")

    def read_scalar(self, i: int, dtype: str) -> None:
        kind, wide = ("float", "double") if "float" in dtype else ("int", "i64")
        self.emit(f"%r{i} = call i32 @lw_arg_{kind}(ptr %p{i}, ptr @{self.name}.d{i}, ptr %slot)")
        self.emit(f"%b{i} = icmp ne i32 %r{i}, 0")
        self.check(f"read{i}", f"%b{i}")
        self.emit(f"%v{i} = load {wide}, ptr %slot, align 8")
        self.values.append(self.narrowed(wide, llvm_type(DataType(dtype)), f"%v{i}"))

    def read_tensor(self, i: int) -> None:
        self.emit(f"%t{i} = call ptr @lw_arg_tensor(ptr %p{i}, ptr @{self.name}.d{i}, ptr %vars)")
        self.values.append(f"ptr {self.data_of(str(i))}")

    def data_of(self, i: str) -> str:
        """The address of the data of the DLTensor `%t{i}`; a null one is an error."""
        self.emit(f"%b{i} = icmp eq ptr %t{i}, null")
        self.check(f"read{i}", f"%b{i}")
        self.emit(f"%a{i} = load ptr, ptr %t{i}, align 8")
        self.emit(f"%op{i} = getelementptr i8, ptr %t{i}, i64 40")
        self.emit(f"%o{i} = load i64, ptr %op{i}, align 8")
        self.emit(f"%v{i} = getelementptr i8, ptr %a{i}, i64 %o{i}")
        return f"%v{i}"

    def compute_dims(self) -> None:
        """Compute derived dimensions; check those of parameters against the actual ones."""
        if self.derived is None:
            return
        from_args = (f"i64 %v{i}" for i in self.sizes)
        sizes = ", ".join([*(f"i64 %s{k}" for k in self.visible), *from_args, "ptr %derived"])
        self.emit(f"%measured = call i32 @{self.derived}({sizes})")
        self.emit("%immense = icmp ne i32 %measured, 0")
        self.check("sized", "%immense")
        for k in self.derived_dims():
            self.emit(f"%ep{k} = getelementptr i64, ptr %derived, i64 {k}")
            self.emit(f"%e{k} = load i64, ptr %ep{k}, align 8")
        for i, param in enumerate(self.params):
            sizes = [f"%s{self.index_of[d]}" if isinstance(d, str) else "" for d in self.dims[i]]
            self.check_dims(f"d{i}", param, sizes)

    def check_dims(self, name: str, tensor: Argument, sizes: Sequence[str]) -> None:
        """Compare the dimensions of a tensor that are computed with the actual ones."""
        for j, dim in enumerate(tensor.dims or ()):
            if _derived(dim):
                at = f"{name}.{j}"
                args = f"ptr @{self.name}.{name}, i64 {j}, i64 {sizes[j]}, i64 %e{dim[1:]}"
                self.emit(f"%dc{at} = call i32 @lw_check_dim({args})")
                self.emit(f"%db{at} = icmp ne i32 %dc{at}, 0")
                self.check(f"fits{at}", f"%db{at}")

    def find_results(self) -> None:
        """Memory for the results: the caller's, or blocks of our own."""
        if not self.results:
            return
        self.emit("br i1 %placed, label %theirs, label %ours")
        self.lines.append("theirs:")
        self.read_results()
        self.emit("br label %ready")
        self.lines.append("ours:")
        self.allocate_results()
        self.emit("br label %ready")
        self.lines.append("ready:")
        for i in range(len(self.results)):
            self.emit(f"%out{i} = load ptr, ptr %to{i}, align 8")
            self.values.append(f"ptr %out{i}")

    def read_results(self) -> None:
        for i, result in enumerate(self.results):
            args = f"ptr %args, i32 {len(self.params) + 1 + i}, ptr @{self.name}.r{i}, ptr %vars"
            self.emit(f"%tr{i} = call ptr @lw_out_tensor({args}, i32 {result.over})")
            self.emit_store(self.data_of(f"r{i}"), f"%to{i}")
            if any(map(_derived, result.dims or ())):
                self.emit(f"%xp{i} = getelementptr i8, ptr %tr{i}, i64 24")
                self.emit(f"%x{i} = load ptr, ptr %xp{i}, align 8")
            sizes = []
            for j, dim in enumerate(result.dims or ()):
                sizes.append(f"%x{i}.{j}")
                if _derived(dim):
                    self.emit(f"%xq{i}.{j} = getelementptr i64, ptr %x{i}, i64 {j}")
                    self.emit(f"%x{i}.{j} = load i64, ptr %xq{i}.{j}, align 8")
            self.check_dims(f"r{i}", result, sizes)

    def emit_store(self, value: str, slot: str) -> None:
        self.emit(f"store ptr {value}, ptr {slot}, align 8")

    def allocate_results(self) -> None:
        for i, result in enumerate(self.results):
            dims = result.dims or ()
            for j, dim in enumerate(dims):
                self.emit(f"%z{i}.{j} = getelementptr i64, ptr %shape{i}, i64 {j}")
                size = str(dim)
                if isinstance(dim, str):
                    size = f"%e{dim[1:]}" if _derived(dim) else f"%s{self.index_of[dim]}"
                self.emit(f"store i64 {size}, ptr %z{i}.{j}, align 8")
            shape = f"i32 {len(dims)}, ptr %shape{i}, i32 {pack_dtype(result.dtype)}"
            name = f"ptr @{self.name}.a{i}"
            self.emit(f"%block{i} = call ptr @lw_tensor_alloc({shape}, {name})")
            self.emit(f"%nb{i} = icmp eq ptr %block{i}, null")
            self.check(f"allocated{i}", f"%nb{i}", _undo(i))
            self.emit_store(f"%block{i}", f"%own{i}")
            self.emit(f"%data{i} = load ptr, ptr %block{i}, align 8")
            self.emit_store(f"%data{i}", f"%to{i}")

    def call_kernel(self) -> None:
        kinds = list(self.symbols.values())
        for k in self.visible:
            kind = kinds[k] if k < len(kinds) else "i64"
            self.values.append(self.narrowed("i64", kind, f"%s{k}"))
        if self.returned is not None:
            self.values.append("ptr %slot")
        self.emit(f"%code = call i32 @{self.kernel}({', '.join(self.values)})")
        self.emit("%failed = icmp ne i32 %code, 0")
        self.check("finished", "%failed", "dropped" if self.results else "fail")

    def hand_out(self) -> None:
        """Store the results, or the scalar in `%slot`, into `%ret`."""
        count = len(self.results)
        if count:
            self.emit("br i1 %placed, label %written, label %made")
            self.lines += ["written:", "  ret i32 0", "made:"]
        for i in range(count):
            self.emit(f"%made{i} = load ptr, ptr %own{i}, align 8")
        if count == 1:
            self.emit("%ok = call i32 @lw_ret_tensor(ptr %made0, ptr %ret)")
        for i in range(count if count > 1 else 0):
            self.emit(f"%w{i} = getelementptr {{ i64, ptr }}, ptr %values, i64 {i}")
            self.emit(f"%k{i} = call i32 @lw_ret_tensor(ptr %made{i}, ptr %w{i})")
        if count > 1:
            self.emit(f"%ok = call i32 @lw_ret_tuple(ptr %values, i32 {count}, ptr %ret)")
        if not count and self.returned is not None:
            index, memory, conversion = self.returned
            wide, value = "double" if index == 3 else "i64", "%scalar"
            self.emit(f"{value} = load {memory}, ptr %slot, align 8")
            if conversion:
                self.emit(f"%packed = {conversion} {memory} {value} to {wide}")
                value = "%packed"
            self.emit(f"store i64 {index}, ptr %ret, align 8")
            self.emit("%payload = getelementptr i8, ptr %ret, i64 8")
            self.emit(f"store {wide} {value}, ptr %payload, align 8")
        self.emit("ret i32 %ok" if count else "ret i32 0")

    def fail(self) -> None:
        """The error paths: free the results that are allocated where an error is found. Each
        allocation has its own, or SSA values of many allocations would merge at many error paths."""
        if self.results:
            self.lines.append("dropped:")
            for i in range(len(self.results)):
                self.emit(f"%drop{i} = load ptr, ptr %own{i}, align 8")
                self.emit(f"call void @lw_tensor_drop(ptr %drop{i})")
            self.emit("br label %fail")
        for i in reversed(range(1, len(self.results))):
            self.lines.append(f"{_undo(i)}:")
            self.emit(f"call void @lw_tensor_drop(ptr %block{i - 1})")
            self.emit(f"br label %{_undo(i - 1)}")
        self.lines.append("fail:")
        self.emit("ret i32 -1")


def _undo(i: int) -> str:
    """The label of the code that frees the results before `i`."""
    return f"undo{i}" if i else "fail"


def _derived(dim: int | str) -> bool:
    return isinstance(dim, str) and dim[0] == "="


def _named_dims(i: int, param: Argument) -> list[int | str]:
    """A parameter's dimensions; computed ones get a unique name with a `?`."""
    return [f"?{i}.{j}" if _derived(d) else d for j, d in enumerate(param.dims or ())]
