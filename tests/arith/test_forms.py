"""Forms that TVM's users know: what `Analyzer().simplify` makes of well-known expressions, as text.

SAME is what TVM makes too. DIFFERENT has TVM's form as well: ours is simpler, or costs the same and
keeps what was written (the direction of a comparison, the order of terms).
"""

from __future__ import annotations

import pytest

import loopwright.script  # noqa: F401 - fills in how expressions print
from loopwright.arith import Analyzer
from loopwright.ir import prim_op as po
from loopwright.ir.prim_expr import Call, Cast, Not, Range, Select, Var

NAMES = {name: Var(name) for name in "nmxyzij"}  # i in [0, 64), j in [0, 8)
NAMES["k"] = Var("k", "int64")
WORDS = {
    "Cast": Cast,
    "Not": Not,
    "Select": Select,
    "all_of": po.logical_and,
    "any_of": po.logical_or,
    "choose": lambda c, t, f: Call(t.dtype, "tir.if_then_else", [c, t, f]),
    **{name: getattr(po, name) for name in ("minimum", "maximum", "floordiv", "floormod")},
    **{name: getattr(po, name) for name in ("truncdiv", "truncmod")},
}

SAME = {
    "2*n": "n * 2",
    "n+n": "n * 2",
    "1+n": "n + 1",
    "n-n": "0",
    "n+m-n": "m",
    "3-n": "3 - n",
    "n-3": "n - 3",
    "0-n": "0 - n",
    "n*2+n*3": "n * 5",
    "n*m+m*n": "n * m * 2",
    "n*(m+1)": "n * (m + 1)",
    "floormod(floordiv(x, 3), 4)": "x % 12 // 3",
    "floordiv(floordiv(x, n), 4)": "x // (n * 4)",
    "n*m-m*n": "0",
    "floordiv(n*4,2)": "n * 2",
    "floordiv(n*4,8)": "n // 2",
    "floordiv(n*4+2,4)": "n",
    "floordiv(n*8+4,4)": "n * 2 + 1",
    "floordiv(floordiv(n,4),2)": "n // 8",
    "floordiv(n,4)*4+floormod(n,4)": "n",
    "floormod(n*4,2)": "0",
    "floormod(n*4+m,4)": "m % 4",
    "floormod(n*4+3,4)": "3",
    "floormod(floormod(n,8),4)": "n % 4",
    "floormod(n+8,4)": "n % 4",
    "floormod(n,4)+4*floordiv(n,4)": "n",
    "floordiv(i,64)": "0",
    "floormod(i,64)": "i",
    "floormod(i*8+j,8)": "j",
    "floordiv(i*8+j,8)": "i",
    "floordiv(i*8+j,32)": "i // 4",
    "floormod(i*8+j,32)": "i % 4 * 8 + j",
    "floormod(n,4)+m": "n % 4 + m",
    "floordiv(n*3+m,12)*12+floordiv(floormod(n*3+m,12),4)*4+floormod(n*3+m,4)": "n * 3 + m",
    "floordiv(i*9+j,36)*36+floordiv(floormod(i*9+j,36),4)*4+floormod(i*9+j,4)": "i * 9 + j",
    "(n*2+m)*32+i": "n * 64 + m * 32 + i",
    "n*8-1+m": "n * 8 + m - 1",
    "n+(m+x)": "n + m + x",
    "minimum(n,n)": "n",
    "minimum(n,n+1)": "n",
    "maximum(n,n+1)": "n + 1",
    "minimum(n+1,n+2)": "n + 1",
    "maximum(n+3,m+3)": "T.max(n, m) + 3",
    "minimum(i,64)": "i",
    "maximum(i,0)": "i",
    "minimum(minimum(n,4),6)": "T.min(n, 4)",
    "maximum(maximum(n,4),6)": "T.max(n, 6)",
    "minimum(n*2,m*2)": "T.min(n, m) * 2",
    "minimum(n,m)-minimum(n,m)": "0",
    "maximum(n,m)+minimum(n,m)": "n + m",
    "n<n+1": "T.bool(True)",
    "n+1<n": "T.bool(False)",
    "n+1<m+1": "n < m",
    "n+1<=5": "n <= 4",
    "n-1<5": "n < 6",
    "n*2<10": "n < 5",
    "2*n<=9": "n <= 4",
    "5>=n+1": "n <= 4",
    "n==n": "T.bool(True)",
    "n*2==5": "T.bool(False)",
    "n!=n": "T.bool(False)",
    "n==m+1": "n == m + 1",
    "i<64": "T.bool(True)",
    "i>=64": "T.bool(False)",
    "i*8+j<512": "T.bool(True)",
    "any_of(n<4,n>=4)": "T.bool(True)",
    "all_of(n<4,n>=4)": "T.bool(False)",
    "Not(n==4)": "n != 4",
    "Select(n<4,n,n)": "n",
    "Select(i<64,n,m)": "n",
    "Select(n<4,1,0)": "T.Select(n < 4, 1, 0)",
    "choose(i<64,n,m)": "n",
    "truncdiv(i,8)": "T.Div(i, 8)",
    "truncmod(i,8)": "T.truncmod(i, 8)",
    "truncdiv(n*4,2)": "n * 2",
    "truncmod(n*4,2)": "0",
    "truncdiv(n,3)*3+truncmod(n,3)": "n",
    "truncdiv(n,6)*6+truncmod(truncdiv(n,3),2)*3+truncmod(n,3)": "n",
    "truncdiv(truncdiv(truncmod(n,16),2)*2,4)": "T.Div(T.truncmod(n, 16), 4)",
    "truncdiv(truncdiv(truncmod(n,16),2)*2,6)": "T.Div(T.truncmod(n, 16), 6)",
    "truncmod(truncdiv(truncmod(n,20),2)*2,4)": "T.Div(T.truncmod(n, 4), 2) * 2",
    "truncdiv(n*2*n*m,4*n*n*n)": "T.Div(m, n * 2)",
    "floordiv(n*2*n*m,4*n*n*n)": "m // (n * 2)",
    "floordiv(n*(2*m)*3,3*m*z)": "n * 2 // z",
    "floordiv(floordiv(floormod(n,16),2)*2,6)": "n % 16 // 6",
    "n*1408+floormod(m*64+i,1408)<2752": "n * 22 + m % 22 < 43",
    "floordiv(n+7,8)*8": "(n + 7) // 8 * 8",
    'Cast("int64",n)+Cast("int64",n)': 'T.Cast("int64", n) * T.int64(2)',
    "k*2+k": "k * T.int64(3)",
    "(n*2+4)*3": "n * 6 + 12",
    "n*2*3": "n * 6",
    "n-(m-n)": "n * 2 - m",
    "n-(n-m)": "m",
    "(n-m)+(m-n)": "0",
    "-1*n": "n * -1",
    "m-n*2": "m - n * 2",
    "m+n*-2": "m - n * 2",
    "n*-1+m": "m - n",
    "x+y+z+x": "x * 2 + y + z",
    "z+y+x": "z + y + x",
    "(x+y)*(x-y)": "(x + y) * (x - y)",
    "x*x-x*x+1": "1",
    "floordiv(x*6,4)": "x * 6 // 4",
    "floordiv(x*2,4)": "x // 2",
    "floormod(x*2,4)*2": "x % 2 * 4",
    "floormod(x*8+y*16+j,8)": "j",
    "i*8+j-j": "i * 8",
    "floordiv(i*2+1,2)": "i",
    "5<n": "5 < n",
    "Not(n<4)": "4 <= n",
    "Not(all_of(n<4,m<4))": "4 <= n or 4 <= m",
    "Select(Not(n<4),n,m)": "T.Select(4 <= n, n, m)",
}

DIFFERENT = {
    "n*2-n*3": ("n * -1", "0 - n"),
    "n*4-n*5": ("n * -1", "0 - n"),
    "(n+1)*2": ("(n + 1) * 2", "n * 2 + 2"),
    "(n+m)*2": ("(n + m) * 2", "n * 2 + m * 2"),
    "2*(n-m)": ("(n - m) * 2", "n * 2 - m * 2"),
    "floordiv(n*4+m,4)": ("n + m // 4", "m // 4 + n"),
    "floordiv(n,-1)": ("n * -1", "n // -1"),
    "n*2<m*2": ("n < m", "n - m < 0"),
    "n+1==m+1": ("n == m", "n + 1 == m + 1"),
    "n*2==4": ("n == 2", "n * 2 == 4"),
    "n-m==0": ("n == m", "n - m == 0"),
    "all_of(n<4,n<8)": ("n < 4", "n < 4 and n < 8"),
    "all_of(n<4,n<4)": ("n < 4", "n < 4 and n < 4"),
    "floordiv(n*16+i,16)": ("n + i // 16", "i // 16 + n"),
    "floormod(x*6,4)": ("x * 6 % 4", "x % 2 * 2"),
    "floormod(n*32*n,n*m)": ("n * (n * 32 % m)", "n * 32 % m * n"),
    "floordiv(x+y*8+j,8)": ("y + (x + j) // 8", "(x + j) // 8 + y"),
    "floordiv(x*8+y*16,8)": ("x + y * 2", "y * 2 + x"),
    'Cast("int32",Cast("int64",n))': ("n", 'T.Cast("int32", T.Cast("int64", n))'),
}


def simplified(source):
    ana = Analyzer()
    ana.bind(NAMES["i"], Range(0, 64))
    ana.bind(NAMES["j"], Range(0, 8))
    return str(ana.simplify(eval(source, {**NAMES, **WORDS})))


@pytest.mark.parametrize("source", SAME)
def test_the_form_of_tvm(source):
    assert simplified(source) == SAME[source]


@pytest.mark.parametrize("source", DIFFERENT)
def test_a_form_of_ours(source):
    ours, theirs = DIFFERENT[source]
    assert simplified(source) == ours != theirs
