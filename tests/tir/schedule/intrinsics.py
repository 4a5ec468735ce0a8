"""Small intrinsics for `tensorize`: copies, fills, elementwise operations and dot products."""

from __future__ import annotations

from loopwright import tir
from loopwright.script import from_source

LENGTHS = (2, 3, 4, 8)
DTYPES = ("float32", "float16", "int32", "int64")


def _buffers(dtype: str, **shapes: str) -> str:
    return ", ".join(
        f'{name}: T.Buffer({shape}, "{dtype}", offset_factor=1)' for name, shape in shapes.items()
    )


def _spatial(n: int, dtype: str, value: str, vector: str, **shapes: str) -> tir.TensorIntrin:
    """`Y[v] = value` over n elements; `vector` computes them at once."""
    head = _buffers(dtype, **shapes, Y=f"({n},)")
    desc = f"""@T.prim_func
def desc({head}):
    for i in range({n}):
        with T.block("x"):
            v = T.axis.spatial({n}, i)
            Y[v] = {value}
"""
    impl = f"""@T.prim_func
def impl({head}):
    with T.block("root"):
        Y[0:{n}] = {vector}
"""
    return tir.TensorIntrin(from_source(desc), from_source(impl))


def scaled(by: int, n: int = 12, dtype: str = "float32", sign: str = "*") -> tir.TensorIntrin:
    """`Y[v] = X[v] * by` of n elements."""
    number = f"T.{dtype}({by})"
    vector = f"X[0:{n}] {sign} T.Broadcast({number}, {n})"
    return _spatial(n, dtype, f"X[v] {sign} {number}", vector, X=f"({n},)")


def _dot(n: int, dtype: str, a: str, b: str, **shapes: str) -> tir.TensorIntrin:
    """`C[0] = C[0] + a * b` over n products."""
    head = _buffers(dtype, **shapes, C="(1,)")
    terms = " + ".join(f"{a} * {b}".replace("@", str(k)) for k in range(n))
    desc = f"""@T.prim_func
def desc({head}):
    for k in range({n}):
        with T.block("dot"):
            vk = T.axis.reduce({n}, k)
            C[0] = C[0] + {a.replace("@", "vk")} * {b.replace("@", "vk")}
"""
    impl = f"""@T.prim_func
def impl({head}):
    with T.block("root"):
        C[0] = C[0] + ({terms})
"""
    return tir.TensorIntrin(from_source(desc), from_source(impl))


_KNOWN: dict[tuple[str, int], list[str]] = {}


def _register_all(dtype: str, n: int) -> None:
    x, column = f"({n},)", f"({n}, 1)"
    intrinsics = {"copy": _spatial(n, dtype, "X[v]", f"X[0:{n}]", X=x)}
    for by in (1, 2, 3):
        intrinsics[f"add{by}"] = scaled(by, n, dtype, "+")
        intrinsics[f"mul{by}"] = scaled(by, n, dtype, "*")
    for sign, word in (("+", "sum"), ("-", "diff"), ("*", "product")):
        vector = f"X[0:{n}] {sign} Z[0:{n}]"
        intrinsics[word] = _spatial(n, dtype, f"X[v] {sign} Z[v]", vector, X=x, Z=x)
    zero = f"T.{dtype}(0)"
    intrinsics["zero"] = _spatial(n, dtype, zero, f"T.Broadcast({zero}, {n})")
    intrinsics["dot"] = _dot(n, dtype, "A[@]", "B[@]", A=x, B=x)
    intrinsics["dot_column"] = _dot(n, dtype, "A[@]", "B[@, 0]", A=x, B=column)
    intrinsics["column_dot"] = _dot(n, dtype, "A[@, 0]", "B[@]", A=column, B=x)
    for name, intrin in intrinsics.items():
        full = f"test.{name}.{dtype}.{n}"
        tir.TensorIntrin.register(full, intrin.desc, intrin.impl, override=True)
        _KNOWN.setdefault((dtype, n), []).append(full)


def matching(block: tir.Block, extent: int | None) -> list[str]:
    """The intrinsics of the type and length of a block."""
    if extent not in LENGTHS or len(block.writes) != 1:
        return []
    dtype = str(block.writes[0].buffer.dtype)
    if dtype not in DTYPES:
        return []
    if (dtype, extent) not in _KNOWN:
        _register_all(dtype, extent)
    reduces = any(axis.iter_type != tir.IterVar.DataPar for axis in block.iter_vars)
    return [name for name in _KNOWN[dtype, extent] if ("dot" in name) == reduces]


def fits(block: tir.Block, name: str) -> bool:
    """Whether a block computes its value by an operation of the same kind as an intrinsic does."""
    return _value_kind(block) is _value_kind(_desc_block(name))


def _value_kind(block: tir.Block) -> type:
    store = block.body
    return type(store.value if isinstance(store, tir.BufferStore) else store)


def _desc_block(name: str) -> tir.Block:
    stmt = tir.TensorIntrin.get(name).desc.body
    while not (isinstance(stmt, tir.BlockRealize) and stmt.block.iter_vars):
        stmt = stmt.block.body if isinstance(stmt, tir.BlockRealize) else stmt.body
    return stmt.block
