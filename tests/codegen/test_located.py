"""Lines of TensorIR beside LLVM text and assembly that are written by hand."""

from __future__ import annotations

from loopwright.codegen.llvm.located import _assembly, _filled, _llvm


def test_instructions_without_a_line() -> None:
    """They have that of the one before in their block, or the next; then in their function."""
    rows = [
        ("f:", 0, 0), ("  a", 0, 3), ("  b", 3, 3), ("  c", 0, 3), ("  d", 4, 4), (".L1:", 0, 0),
        ("  e", 0, 4), ("  ; a comment", 0, 0), ("  .long 3", 0, 0), (".L2:", 0, 0), ("  f", 6, 6),
        ("g:", 0, 0), ("  h", 0, 7), (".L3:", 0, 0), ("  i", 7, 7), ("h:", 0, 0), ("  j", 0, 1),
    ]  # fmt: skip
    texts, lines, wanted = (list(column) for column in zip(*rows, strict=True))
    assert _filled(texts, lines, lambda text: text[0] not in " .") == wanted


LLVM = """; ModuleID = 'm'
@c = constant i32 1, !dbg !9

define i32 @f(i32 %x) !dbg !3 {
  %a = add i32 %x, 2, !dbg !5
  br label %next
next:
  %b = mul i32 %a, 2, !dbg !6
  ret i32 %b, !dbg !7, !range !8
}

declare void @g()
!5 = !DILocation(line: 7, column: 1, scope: !3)
!6 = distinct !DILocation(line: 9, scope: !4, inlinedAt: !5)
!7 = !DILocation(line: 12, scope: !3)
"""


def test_llvm_text() -> None:
    code = _llvm(LLVM)
    assert code.texts == [
        "define i32 @f(i32 %x) {",
        "  %a = add i32 %x, 2",
        "  br label %next",
        "next:",
        "  %b = mul i32 %a, 2",
        "  ret i32 %b, !range !8",
        "}",
    ]
    assert code.lines == [0, 7, 7, 0, 7, 12, 0]  # what is inlined counts for the line that calls it


ASSEMBLY = """\t.file\t"m"
\t.section\t.debug_str,"MS"
\t.asciz\t"hidden"
\t.text
\t.globl\tf
f:
\t.cfi_startproc
\t.loc\t1 4 0
\tpushq\t%rbp
.Ltmp0:
\t.loc 1 5 3
\taddl\t$1, %eax
\tretq
.Lfunc_end0:
g:
\tnop
\t.section\t.rodata
.LCPI0_0:
\t.long\t0x3f800000
\t.section\t".note.GNU-stack"
\t.quad\t1
"""


def test_assembly() -> None:
    code = _assembly(ASSEMBLY)
    assert code.texts == [
        "f:",
        "        pushq   %rbp",
        "        addl    $1, %eax",
        "        retq",
        "g:",
        "        nop",
        ".LCPI0_0:",
        "        .long   0x3f800000",
    ]
    assert code.lines == [0, 4, 5, 5, 0, 1, 0, 0]
