"""The default macros of a model's source, and its static memory."""

from __future__ import annotations

ERRORS = """\
#ifndef {m}_ERROR /* called with a message before a function returns an error */
#ifdef {m}_LAST_ERROR /* the bytes that the last message may take */
#if defined(__GNUC__)
#define {m}_THREAD __thread
#else
#define {m}_THREAD
#endif
static const char* {p}_say(const char* message) {{
  static {m}_THREAD char text[{m}_LAST_ERROR];
  size_t n = 0;
  if (message == NULL) return text;
  for (; message[n] != 0 && n + 1 < sizeof text; ++n) text[n] = message[n];
  text[n] = 0;
  return text;
}}
const char* {p}_last_error(void) {{ return {p}_say(NULL); }}
#define {m}_ERROR(message) ((void){p}_say(message))
#else
#define {m}_ERROR(message) ((void)0)
#endif
#endif
"""
# The workspace holds tensors of different types one after the other.
NOINLINE = """
#ifndef {m}_NOINLINE /* calls order what kernels do to memory that they share */
#if defined(__GNUC__)
#define {m}_NOINLINE __attribute__((noinline))
#else
#define {m}_NOINLINE
#endif
#endif
"""
# gcc fully unrolls short loops before it vectorizes, and then does not vectorize them; pragmas name
# the loop that is a vector, and those over the vectors of a tile.
LOOPS = """
#ifndef {m}_UNROLL
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 8
#define {m}_PRAGMA(text) _Pragma(#text)
#define {m}_UNROLL(n) {m}_PRAGMA(GCC unroll n) /* the loop's n iterations, one after the other */
#define {m}_VECTOR {m}_PRAGMA(GCC unroll 1) /* the loop's iterations, at once */
#else
#define {m}_UNROLL(n)
#define {m}_VECTOR
#endif
#endif
"""
ALIGNED = """
#ifndef {m}_ALIGNED
#if defined(__GNUC__)
#define {m}_ALIGNED __attribute__((aligned(64)))
#else
#define {m}_ALIGNED
#endif
#endif
"""


def arena(macro: str, prefix: str, area: str, alignment: int) -> str:
    """The static array used when the caller passes no memory."""
    name = area.upper()
    aligned = f"__attribute__((aligned({alignment})))"
    return f"""#ifndef {macro}_NO_WORKSPACE
#ifndef {macro}_{name}_ATTRIBUTE /* such as a section */
#if defined(__GNUC__)
#define {macro}_{name}_ATTRIBUTE {aligned}
#else
#define {macro}_{name}_ATTRIBUTE
#endif
#endif
static union {{
  uint8_t bytes[{macro}_{name}_BYTES];
  double alignment;
}} {prefix}_arena_{area} {macro}_{name}_ATTRIBUTE;
#endif

"""
