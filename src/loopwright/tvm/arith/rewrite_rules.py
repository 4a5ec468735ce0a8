"""The rules of `rewrite_simplify`, in the notation of `rule_text`."""

from __future__ import annotations

import re

from .rule_text import table

# Sums, differences and products.
_SUMS = """
(x ^ c1) + c2 => x + (c1 + c2)
x + x => x * 2
x + (y ^ c1) => (x + y) + c1
(x ^ c1) + y => (x + y) + c1
(c1 - y) + x => (x - y) + c1
x @ c1 + x @ c2 => x * (c1 + c2)
x @ c1 + x @ y => (y + c1) * x
x @ y + x @ z => (y + z) * x
x @ y + x => (y + 1) * x
x + x @ y => (y + 1) * x
min(x, y - z) ^ z => min(x + z, y)
min(x - z, y) ^ z => min(x, y + z)
min(x, y + z * c1) ^ z * c2 => min(x + z * c2, y) if c1 == -c2
min(x + z * c1, y) ^ z * c2 => min(x, y + z * c2) if c1 == -c2
min(x, y + c1) + c2 => min(x + c2, y) if c1 == -c2
min(x + c1, y + c3) + c2 => min(x, y + (c3 + c2)) if c1 == -c2
min(x + c1, y) + c2 => min(x, y + c2) if c1 == -c2
select(b, x, y) + select(b, z, w) => select(b, x + z, y + w)
tdiv(x, c1) * c1 + tmod(x, c1) => x
x // 2 ^ x % 2 => (x + 1) // 2
x % 2 ^ (x + 1) % 2 => 1
(x % 2 + c1) // 2 ^ x // 2 => (x + c1) // 2
x - x => 0
x - c1 => x + -c1
(x ^ y) - x => y
x - (x ^ y) => 0 - y
x @ y - x => (y + -1) * x
x @ y - x @ z => (y - z) * x
min(x, y) - x => min(0, y - x)
min(x, y) - y => min(x - y, 0)
x - min(x, y) => max(0, x - y)
y - min(x, y) => max(y - x, 0)
min(x ^ y, z) - x => min(y, z - x)
min(z, x ^ y) - x => min(z - x, y)
x - min(x ^ y, z) => max(0 - y, x - z)
x - min(z, x ^ y) => max(x - z, 0 - y)
min(x + c1, y + c2) - min(x, y + c3) => c1 if c1 == c2 - c3
select(b, x, y) - select(b, z, w) => select(b, x - z, y - w)
select(b, y, z) - z => select(b, y - z, 0)
select(b, y, z) - y => select(b, 0, z - y)
(x + 1) // 2 - x // 2 => x % 2
x // 2 - (x + -1) // 2 => x % 2 * -1 + 1
(x + c1) // 2 - (x + c2) // 2 => x % 2 + (c1 - c2) // 2 if c2 % 2 == 0 and c1 % 2 == 1
(x + 1) // 2 - x % 2 => x // 2
(x + c1) // 2 - (x // 2 + c2) => x % 2 + (c1 - 1) // 2 - c2 if c1 % 2 == 1
1 - x % 2 => x % 2 * -1 + 1
(x - y) * c1 => (y - x) * -c1 if c1 < 0
(x + c1) * c2 => x * c2 + c1 * c2
min(x, y) @ max(x, y) => x * y
"""

# Valid for both roundings: once with `tdiv` and `tmod`, and once with `//` and `%` (see `_floored`).
_QUOTIENTS = """
tdiv(x, c1) * c1 - x => 0 - tmod(x, c1)
x - tdiv(x ^ y, c1) * c1 => tmod(x + y, c1) - y
tdiv(x ^ y, c1) * c1 - x => y - tmod(x + y, c1)
x - tdiv(x - y, c1) * c1 => tmod(x - y, c1) + y
tdiv(x - y, c1) * c1 - x => 0 - tmod(x - y, c1) - y
x * c2 - tdiv(x, c1) * c3 => tmod(x, c1) * c2 if c3 == c1 * c2
tdiv(x, c1) * c3 - x * c2 => tmod(x, c1) * -c2 if c3 == c1 * c2
x * c2 - tdiv(x ^ y, c1) * c3 => (tmod(x + y, c1) - y) * c2 if c3 == c1 * c2
tdiv(x ^ y, c1) * c3 - x * c2 => (y - tmod(x + y, c1)) * c2 if c3 == c1 * c2
x * c2 - tdiv(x - y, c1) * c3 => (tmod(x - y, c1) + y) * c2 if c3 == c1 * c2
tdiv(x - y, c1) * c3 - x * c2 => (0 - tmod(x - y, c1) - y) * c2 if c3 == c1 * c2
tdiv(x + c1, c3) - tdiv(x, c3) => tdiv(tmod(x, c3) + c1, c3) if c3 > 0 and c1 >= 0 and nonneg(x)
tdiv(x + c1, c3) - tdiv(x + c2, c3) => tdiv(tmod(x + c2, c3) + (c1 - c2), c3) if c3 > 0 and c1 >= c2 and nonneg(x + c2)
tdiv(x, x) => 1
tdiv(tdiv(x, c1), c2) => tdiv(x, c1 * c2) if c1 > 0 and c2 > 0
tdiv(tdiv(x, c1) + c2, c3) => tdiv(x + c1 * c2, c1 * c3) if c1 > 0 and c2 >= 0 and c3 > 0 and nonneg(x)
tdiv(x * c1, c2) => x * (c1 // c2) if c2 and c1 % c2 == 0
tdiv(x * c1, c2) => tdiv(x, c2 // c1) if c1 > 0 and c2 % c1 == 0
tdiv(x * y, y) => x
tdiv(y * x, y) => x
tdiv(x * c1 + y, c2) => x * (c1 // c2) + tdiv(y, c2) if c2 > 0 and c1 % c2 == 0 and nonneg(x * c1) and nonneg(y)
tdiv((x * c1 + y) + z, c2) => x * (c1 // c2) + tdiv(y + z, c2) if c2 > 0 and c1 % c2 == 0 and nonneg(x * c1) and nonneg(y + z)
tdiv((y + x * c1) + z, c2) => x * (c1 // c2) + tdiv(y + z, c2) if c2 > 0 and c1 % c2 == 0 and nonneg(x * c1) and nonneg(y + z)
tdiv(x + c1, c2) => tdiv(x, c2) + c1 // c2 if c2 > 0 and c1 % c2 == 0 and nonneg(x) and c1 > 0
tdiv(min(x * c1, y), c2) => min(x * (c1 // c2), tdiv(y, c2)) if c2 > 0 and c1 % c2 == 0
tdiv(min(y, x * c1), c2) => min(tdiv(y, c2), x * (c1 // c2)) if c2 > 0 and c1 % c2 == 0
tdiv(max(x * c1, y), c2) => max(x * (c1 // c2), tdiv(y, c2)) if c2 > 0 and c1 % c2 == 0
tdiv(max(y, x * c1), c2) => max(tdiv(y, c2), x * (c1 // c2)) if c2 > 0 and c1 % c2 == 0
tdiv((x ^ y), x) => tdiv(y, x) + 1 if nonneg(x) and nonneg(y)
tdiv((x ^ y) + z, x) => tdiv(y + z, x) + 1 if nonneg(x) and nonneg(y + z)
tdiv(y + (x ^ z), x) => tdiv(y + z, x) + 1 if nonneg(x) and nonneg(y + z)
tdiv(x @ z + y, z) => x + tdiv(y, z) if nonneg(x) and nonneg(y) and nonneg(z)
tdiv(y + x @ z, z) => tdiv(y, z) + x if nonneg(x) and nonneg(y) and nonneg(z)
min(tdiv(x, c1), tdiv(y, c1)) => tdiv(min(x, y), c1) if c1 > 0
min(tdiv(x, c1), tdiv(y, c1)) => tdiv(max(x, y), c1) if c1 < 0
max(tdiv(x, c1), tdiv(y, c1)) => tdiv(max(x, y), c1) if c1 > 0
max(tdiv(x, c1), tdiv(y, c1)) => tdiv(min(x, y), c1) if c1 < 0
tdiv(x, c1) * c1 < x => 0 < tmod(x, c1) if c1 > 0
tdiv(x, c1) * c1 < x + y => 0 < tmod(x, c1) + y if c1 > 0
tdiv(x, c1) * c1 < x - y => y < tmod(x, c1) if c1 > 0
tdiv(x + c2, c1) * c1 < x => c2 < tmod(x + c2, c1) if c1 > 0
tdiv(x + c2, c1) * c1 < x + y => c2 < tmod(x + c2, c1) + y if c1 > 0
tdiv(x + c2, c1) * c1 < x - y => y + c2 < tmod(x + c2, c1) if c1 > 0
x <= tdiv(x + c2, c1) * c1 => tmod(x + c2, c1) <= c2 if c1 > 0
x + y <= tdiv(x + c2, c1) * c1 => tmod(x + c2, c1) + y <= c2 if c1 > 0
x - y <= tdiv(x + c2, c1) * c1 => tmod(x + c2, c1) <= y + c2 if c1 > 0
"""

# Of quotients rounded toward zero only.
_TRUNCATED = """
x - tdiv(x, c1) * c1 => tmod(x, abs(c1))
tdiv(y + x * c1, c2) => tdiv(y, c2) + x * (c1 // c2) if c2 > 0 and c1 % c2 == 0 and nonneg(x * c1) and nonneg(y)
tmod(x, c1) => tmod(x, -c1) if c1 < 0
tmod(x * c1, c2) => 0 if c1 % c2 == 0
tmod(x * c1 + y, c2) => tmod(y, c2) if c1 % c2 == 0 and nonneg(x * c1) and nonneg(y)
tmod(y + x * c1, c2) => tmod(y, c2) if c1 % c2 == 0 and nonneg(x * c1) and nonneg(y)
tmod(x + c1, c2) => tmod(x, c2) if c1 >= 0 and c1 % c2 == 0 and nonneg(x)
min(tdiv(x + c1, c2) * c2, x) => x if c2 > 0 and c1 == c2 - 1
min(x, tdiv(x + c1, c2) * c2) => x if c2 > 0 and c1 == c2 - 1
max(tdiv(x + c1, c2) * c2, x) => tdiv(x + c1, c2) * c2 if c2 > 0 and c1 == c2 - 1
x <= tdiv(x, c1) * c1 => tmod(x, c1) <= 0 if c1 > 0
tdiv(x, c1) < c2 => x < c1 * c2 if c1 > 0 and c2 > 0
c2 < tdiv(x, c1) => c1 * (c2 + 1) - 1 < x if c1 > 0 and c2 >= 0
c2 < tdiv(x, c1) => c1 * c2 < x if c1 > 0 and c2 < 0
c2 <= tdiv(x, c1) => c1 * c2 <= x if c1 > 0 and c2 > 0
c2 <= tdiv(x, c1) => c1 * (c2 - 1) + 1 <= x if c1 > 0 and c2 <= 0
tdiv(x, c1) <= c2 => x <= c1 * (c2 + 1) - 1 if c1 > 0 and c2 >= 0
tdiv(x, c1) <= c2 => x <= c1 * c2 if c1 > 0 and c2 < 0
"""

# Of quotients rounded down only.
_FLOORED = """
x - x // c1 * c1 => x % c1
(x * c1 ^ y) // c2 => x * (c1 // c2) + y // c2 if c2 > 0 and c1 % c2 == 0
((x * c1 ^ y) + z) // c2 => x * (c1 // c2) + (y + z) // c2 if c2 > 0 and c1 % c2 == 0
(x + c1) // c2 => x // c2 + c1 // c2 if c2 > 0 and c1 % c2 == 0
(x @ z * c1 ^ y) // (z * c1) => x + y // (z * c1) if nonneg(z * c1)
(x % 2 + 1) // 2 => x % 2
(x + c1) // c3 - x // c3 => (x % c3 + c1) // c3 if c3 > 0
(y + x @ z) // z => y // z + x if nonneg(z)
(x * c1) % c2 => x * (c1 % c2) % c2 if c2 > 0 and (c1 >= c2 or c1 < 0) and c1 % c2
(x * c1 + y) % c2 => (x * (c1 % c2) + y) % c2 if c2 > 0 and c1 >= c2 and c1 % c2
(y + x * c1) % c2 => (y + x * (c1 % c2)) % c2 if c2 > 0 and c1 >= c2 and c1 % c2
(x * c1 ^ y) % c2 => x % (c2 // c1) * c1 + y if 0 < c1 < c2 and c2 % c1 == 0 and nonneg(y) and nonneg(c1 - 1 - y)
(x + c1) % c2 => (x + c1 % c2) % c2 if c2 > 0 and (c1 >= c2 or c1 < 0) and c1 % c2
x <= x // c1 * c1 => x % c1 == 0 if c1 > 0
x // c1 < c2 => x < c1 * c2 if c1 > 0
c2 < x // c1 => c1 * (c2 + 1) - 1 < x if c1 > 0
c2 <= x // c1 => c1 * c2 <= x if c1 > 0
x // c1 <= c2 => x <= c1 * (c2 + 1) - 1 if c1 > 0
x // c1 == c2 and x % c1 == c3 => x == c1 * c2 + c3 if 0 <= c3 < c1
x % c1 == c3 and x // c1 == c2 => x == c1 * c2 + c3 if 0 <= c3 < c1
x // c1 == c2 and x % c1 < c3 => c1 * c2 <= x and x < c1 * c2 + c3 if 0 < c3 <= c1
x // c1 == c2 and x % c1 <= c3 => c1 * c2 <= x and x <= c1 * c2 + c3 if 0 <= c3 < c1
x // c1 == c2 and c3 < x % c1 => c1 * c2 + c3 < x and x < c1 * (c2 + 1) if 0 <= c3 < c1
x // c1 == c2 and c3 <= x % c1 => c1 * c2 + c3 <= x and x < c1 * (c2 + 1) if 0 <= c3 < c1
y * c1 <= x and x + y * c2 < c1 => y == x // c1 if c1 == -c2 > 0
x + y * c2 < c1 and y * c1 <= x => y == x // c1 if c1 == -c2 > 0
x < c1 and x % c2 < c3 => x < (c1 - 1) // c2 * c2 + c3 and x % c2 < c3 if c2 > 0 and (c1 - 1) % c2 >= c3
x <= c1 and x % c2 < c3 => x < c1 // c2 * c2 + c3 and x % c2 < c3 if c2 > 0 and c1 % c2 >= c3
"""

# Of min; `_mirrored` has those of max.
_EXTREMES = """
min(max(x, y), max(x, z)) => max(min(y, z), x)
min(max(x, y), max(z, x)) => max(min(y, z), x)
min(max(y, x), max(x, z)) => max(min(y, z), x)
min(max(y, x), max(z, x)) => max(min(y, z), x)
min(y ^ x, z ^ x) => min(y, z) + x
min(x - y, x - z) => x - max(y, z)
min(y - x, z - x) => min(y, z) - x
min(x * c1, c2) => min(x, c2 // c1) * c1 if c1 > 0 and c2 % c1 == 0
min(x * c1, c2) => max(x, c2 // c1) * c1 if c1 < 0 and c2 % c1 == 0
min(c1 - x, c2) => c1 - max(x, c1 - c2)
min(select(b, x, y), select(b, z, w)) => select(b, min(x, z), min(y, w))
"""

# Comparisons, which all become `<`, `<=` and `==`, conditions, and min and max of related operands.
_COMPARISONS = """
min(max(x, y), min(x, y)) => min(x, y)
min(max(x, y), min(y, x)) => min(x, y)
max(min(x, y), max(x, y)) => max(x, y)
max(min(x, y), max(y, x)) => max(x, y)
max(0, c1 ^ x * c3) + x * c2 => max(x * c2, c1) if c3 == -c2
max(c1 ^ x * c3, 0) + x * c2 => max(x * c2, c1) if c3 == -c2
min(0, c1 ^ x * c3) + x * c2 => min(x * c2, c1) if c3 == -c2
min(c1 ^ x * c3, 0) + x * c2 => min(x * c2, c1) if c3 == -c2
x >= y => y <= x
x > y => y < x
x < y + c1 => x + -c1 < y if c1 < 0
x + c1 < y => x < y + -c1 if c1 < 0
x <= y + c1 => x + -c1 <= y if c1 < 0
x + c1 <= y => x <= y + -c1 if c1 < 0
x < (z ^ x) => 0 < z
(z ^ x) < x => z < 0
x <= (z ^ x) => 0 <= z
(z ^ x) <= x => z <= 0
c1 < x + c2 => c1 - c2 < x
x + c2 < c1 => x < c1 - c2
c1 <= x + c2 => c1 - c2 <= x
x + c2 <= c1 => x <= c1 - c2
c2 <= x * c1 => -(-c2 // c1) <= x if c1 > 0
c2 <= x * c1 => x <= -c2 // -c1 if c1 < 0
x * c1 <= c2 => x <= c2 // c1 if c1 > 0
x * c1 <= c2 => -(c2 // -c1) <= x if c1 < 0
min(x, c1) < c2 => x < c2 if c1 >= c2
c2 < max(c1, x) => c2 < x if c1 <= c2
c2 < max(x, c1) => c2 < x if c1 <= c2
x + c1 < max(c2, x) => x < c2 - c1 if c1 > 0
x * y == 0 => x == 0 or y == 0
x != y and x == y => False
x == y and x != y => False
x == y or x != y => True
x != y or x == y => True
x or (y or z) => (x or y) or z
x and (y and z) => (x and y) and z
select(b, x, x) => x
min(x * y, x * z) => x * y if nonneg(x) and nonneg(z - y)
min(x * y, x * z) => x * z if nonneg(x) and nonneg(y - z)
max(x * y, x * z) => x * z if nonneg(x) and nonneg(z - y)
max(x * y, x * z) => x * y if nonneg(x) and nonneg(y - z)
if_then_else(x, if_then_else(y, z, w), w) => if_then_else(x and y, z, w)
"""


def _mirrored(text: str) -> str:
    """The rules with min or max in them, with the two exchanged."""
    rows = [line for line in text.splitlines() if "min(" in line or "max(" in line]
    swap = {"min(": "max(", "max(": "min("}
    return re.sub(r"m(in|ax)\(", lambda m: swap[m[0]], "\n".join(rows))


def _floored(text: str) -> str:
    """The rules with `//` and `%` for `tdiv` and `tmod`."""
    return text.replace("tdiv(", "fdiv(").replace("tmod(", "fmod(")


# Not mirrored: the results of min and max differ.
_GREATER = """
max(x ^ y, x) => x + y if nonneg(y)
min(x ^ y, x) => x if nonneg(y)
"""
# For expressions that no earlier rule matches.
_LAST = """
min(x, y) => x if nonneg(y - x)
min(x, y) => y if nonneg(x - y)
max(x, y) => y if nonneg(y - x)
max(x, y) => x if nonneg(x - y)
x - y * c1 => x + y * -c1 if c1 > 0
"""
_ALL = (_COMPARISONS, _SUMS, _mirrored(_SUMS), _GREATER, _EXTREMES, _mirrored(_EXTREMES))
RULES = table("\n".join([*_ALL, _QUOTIENTS, _TRUNCATED, _FLOORED, _floored(_QUOTIENTS), _LAST]))
