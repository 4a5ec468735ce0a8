"""Requirements, targets and parameters of tests."""

from __future__ import annotations

import struct

import llvmlite.binding
import pytest

import loopwright as lw
from loopwright.testing import cases, marks


def skipped(requirement: marks.Requirement) -> bool:
    """Whether its tests are skipped here."""
    (mark,) = requirement.marks()
    return mark.args[0]


def test_versions_of_llvm():
    have = llvmlite.binding.llvm_version_info[0]
    found = [skipped(marks.requires_llvm_minimum_version(have + n)) for n in (-1, 0, 1)]
    assert found == [False, False, True]


def test_a_requirement_is_given_with_and_without_options():
    requirement = marks.Requirement("luck", lambda: False)

    @requirement
    def bare(): ...

    @requirement(support_required="optional")
    def optional(): ...

    assert bare.pytestmark[0].kwargs == {"reason": "needs luck"}
    assert not hasattr(optional, "pytestmark") and requirement.marks("optional") == []


def test_requirements_of_this_machine(monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "AMD64")
    assert [skipped(marks.requires_x86), skipped(marks.requires_aarch64)] == [False, True]
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    assert [skipped(marks.requires_x86), skipped(marks.requires_aarch64)] == [True, False]
    assert marks.requires_x86_vnni.what == "a processor with avx512vnni or avxvnni"
    assert skipped(marks.requires_nvcc_version(11, 4))
    assert marks.requires_nvcc_version(11, 4).what == "CUDA 11.4"
    mark = marks.skip_if_32bit("long numbers").mark
    assert (mark.args, mark.kwargs) == ((struct.calcsize("P") == 4,), {"reason": "long numbers"})


def test_packages():
    both = marks.requires_package("numpy", "json")
    assert both.what == "numpy and json" and not skipped(both)
    one = marks.requires_package("numpy", "no_such")
    assert one.what == "no_such" and skipped(one)


@pytest.mark.parametrize(
    ("names", "enabled"),
    [
        ("", ["llvm"]),
        (" ; ", ["llvm"]),
        ("llvm -mcpu=x86-64; c ;cuda;;abacus", ["llvm -mcpu=x86-64", "c"]),
        ("cuda", []),
    ],
)
def test_targets(names, enabled, monkeypatch):
    monkeypatch.setenv("TVM_TEST_TARGETS", names)
    assert marks.enabled_targets() == [(name, lw.cpu()) for name in enabled]
    assert marks.device_enabled("llvm -num-cores=3") == any("llvm" in n for n in enabled)
    values = marks.parametrize_targets("llvm", "cuda").args[1]
    assert [v.values for v in values] == [("llvm",), ("cuda",)]
    assert [bool(v.marks) for v in values] == ["llvm" not in " ".join(enabled), True]


def test_all_targets():
    def test():
        """A test."""

    assert marks.parametrize_targets(test) is test
    assert len(marks.target_marks("cuda")) == 1
    assert marks.target_marks("llvm") == marks.target_marks("abacus") == []


def test_ids():
    def of(made):
        return made._fixture_function_marker.ids

    assert list(of(cases.parameter(1, len))) == ["1", "len"]
    assert list(of(cases.parameter(1, 2, ids=["one", "two"]))) == ["one", "two"]
    for values, ids in (((1,), None), ((), ["one"])):
        with pytest.raises(ValueError, match="or by_dict"):
            cases.parameter(*values, ids=ids, by_dict={"two": 2})
    with pytest.raises(ValueError, match="sets of one length\n  got: 2, 1"):
        cases.parameters((1, 2), (3,))
    assert cases.Together([(1, 2), (3, 4)], None).ids == ["set0", "set1"]
    assert cases.Together([(1, 2), (3, 4)], ["a", "b"]).ids == ["a", "b"]
