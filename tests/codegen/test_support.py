"""The files of LLVM assembly: whole modules each, that say what they hold and fit together."""

import re
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from loopwright.codegen.llvm import jit, support
from loopwright.codegen.llvm.compiler import target_machine

FILES = sorted(path.stem for path in Path(support.__file__).parent.glob("*.ll"))
TRIPLES = [jit.host_triple(), "aarch64-linux-gnu", "x86_64-linux-gnu", "arm64-apple-macosx"]
PUBLIC = re.compile(r"^define (?!internal|weak)(?:noalias |align \d+ )*(.* @lw_.*\)) .*{$", re.M)
PROMISED = re.compile(r"^;   (\w+ @lw_.*\))$", re.M)
DECLARED = re.compile(r"^declare (?:noalias )?(\w+) @(lw[\w.]+)\((.*)\)$", re.M)
DEFINED = re.compile(r"^define (?:internal |noalias |align \d+ )*(\w+) @(lw[\w.]+)\((.*)\)", re.M)


def test_every_file_is_in_a_module_of_some_target():
    triples = ["x86_64-linux-gnu", "aarch64-linux-gnu", "riscv64-linux-gnu", "arm64-apple-macosx"]
    texts = [f(t) for t in triples for f in (support.pool_text, support.helpers_text)]
    heads = {file: re.search(r"^define .*$", support.read(file), re.M)[0] for file in FILES}
    unused = [file for file in FILES if not any(heads[file] in text for text in texts)]
    assert unused == ["alone", "integer_power"]


@pytest.mark.parametrize("triple", TRIPLES)
@pytest.mark.parametrize("file", FILES)
def test_a_file_parses_and_verifies(file, triple):
    machine = target_machine(triple, "", "")
    with llvm.parse_assembly(support.read(file), llvm.create_context()) as module:
        module.triple, module.data_layout = triple, str(machine.target_data)
        module.verify()


@pytest.mark.parametrize("file", FILES)
def test_the_header_lists_what_a_file_defines(file):
    text = support.read(file)
    assert text.startswith("; ")
    header = text.split("\n\n", 1)[0]
    assert all(line.startswith(";") for line in header.splitlines())
    assert PROMISED.findall(header) == [head.replace("%", "") for head in PUBLIC.findall(text)]


def test_files_declare_what_others_define():
    defined = {}
    for file in FILES:
        for result, name, parameters in DEFINED.findall(support.read(file)):
            kinds = re.sub(r" %\w+", "", parameters)
            assert defined.setdefault(name, (result, kinds)) == (result, kinds), name
    declared = [head for file in FILES for head in DECLARED.findall(support.read(file))]
    assert declared
    for result, name, kinds in declared:
        assert defined[name] == (result, kinds), name


@pytest.mark.parametrize("triple", [*TRIPLES, "riscv64-linux-gnu"])
@pytest.mark.parametrize("text", [support.pool_text, support.helpers_text])
def test_modules_are_whole(text, triple):
    joined = text(triple)
    assert not DECLARED.findall(joined), "a function of another file is missing"
    assert len(jit.compile_object(joined, triple, verify=True)) > 1000


def test_declarations_are_those_of_the_definitions():
    text = "call i32 @lw_arg_count(i32 1, i32 2, ptr @x)\ncall ptr @lw_workspace_alloc(i64 8)"
    assert support.declarations(text).splitlines() == [
        "declare noalias align 64 ptr @lw_workspace_alloc(i64)",
        "declare i32 @lw_arg_count(i32, i32, ptr)",
    ]
