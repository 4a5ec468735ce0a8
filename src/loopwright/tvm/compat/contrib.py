"""TVM's `contrib.cc` and `contrib.clang`: the system's compiler, called on files; and its
`contrib.tar` and `contrib.pickle_memoize`."""

from __future__ import annotations

import atexit
import os
import pickle
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from functools import cache, wraps
from pathlib import Path
from typing import Any

from ...base.errors import LoopwrightError, explain
from ...base.trusted import unpack, weakness
from ...runtime.c_compiler import find_compiler, run_tool

Files = str | Path | Sequence[str | Path]


def _files(files: Files) -> list[str]:
    return [str(f) for f in ([files] if isinstance(files, (str, Path)) else files)]


def get_cc() -> str | None:
    """The C compiler, or None."""
    try:
        return find_compiler()
    except LoopwrightError:
        return None


def _link(output: Path, objects: Files, flags: Sequence[str], cc: str | None) -> None:
    run_tool([find_compiler(cc), *flags, "-o", str(output), *_files(objects)])


def create_shared(
    output: str | Path, objects: Files, options: Sequence[str] | None = None, cc: str | None = None,
    cwd: str | None = None, ccache_env: dict[str, str] | None = None,
) -> None:  # fmt: skip
    """Link objects or sources to a shared library. Raises LoopwrightError."""
    folder = Path(cwd or ".")
    _link(folder / output, objects, ["-shared", "-fPIC", *(options or ())], cc)


def create_executable(
    output: str | Path, objects: Files, options: Sequence[str] | None = None, cc: str | None = None,
    cwd: str | None = None, ccache_env: dict[str, str] | None = None,
) -> None:  # fmt: skip
    """Link objects or sources to a program. Raises LoopwrightError."""
    _link(Path(cwd or ".") / output, [*_files(objects), *(options or ())], [], cc)


def create_staticlib(output: str | Path, inputs: Files, ar: str | None = None) -> None:
    """Put objects, and those of other archives, into an archive. Raises LoopwrightError."""
    tool = ar or shutil.which("ar")
    if tool is None:
        raise LoopwrightError(explain("no archiver on PATH", instead="install binutils"))
    lines = [f"create {output}"]
    lines += [f"{'addlib' if f.endswith('.a') else 'addmod'} {f}" for f in _files(inputs)]
    script = "\n".join([*lines, "save", "end", ""])
    done = subprocess.run([tool, "-M"], input=script, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LoopwrightError(explain(f"{tool} failed", got=done.stderr.strip()))


def get_target_by_dump_machine(compiler: str) -> Callable[[], str]:
    """A function that returns the triple of a compiler's target."""

    def triple() -> str:
        command = [compiler, "-dumpmachine"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    return triple


def cross_compiler(
    compile_func: str | Callable[..., None],
    options: Sequence[str] | None = None,
    output_format: str = "so",
    get_target_triple: Callable[[], str] | None = None,
    add_files: Sequence[str] | None = None,
) -> Callable[..., None]:
    """`create_shared` with another compiler, by name or as a function like it."""
    base, extra = list(options or ()), list(add_files or ())

    def compile_files(
        outputs: Path | str, objects: Files, options: Sequence[str] | None = None
    ) -> None:
        files, flags = [*_files(objects), *extra], [*base, *(options or ())]
        if isinstance(compile_func, str):
            create_shared(outputs, files, flags, cc=compile_func)
        else:
            compile_func(outputs, files, options=flags)

    triple: Any = get_target_triple
    if triple is None and isinstance(compile_func, str):
        triple = get_target_by_dump_machine(compile_func)
    vars(compile_files).update(output_format=output_format, get_target_triple=triple)
    return compile_files


def find_clang(required: bool = True) -> list[str]:
    """The clangs on the path. Raises RuntimeError where one is required but missing."""
    names = ["clang", *(f"clang-{n}" for n in range(30, 10, -1))]
    paths = [path for path in map(shutil.which, names) if path]
    if required and not paths:
        raise LoopwrightError(explain("clang was not found", got="none on PATH"))
    return paths


def create_llvm(
    inputs: str | Sequence[str],
    output: str | None = None,
    options: Sequence[str] | None = None,
    cc: str | None = None,
) -> str:
    """The LLVM text of C sources, given as code or by file. Raises LoopwrightError."""
    texts = [inputs] if isinstance(inputs, str) else list(inputs)
    tool, flags = cc or find_clang()[0], list(options or ())
    with tempfile.TemporaryDirectory() as folder:
        parts = []
        for index, text in enumerate(texts):
            source = Path(text)
            if "\n" in text or not source.suffix:
                source = Path(folder, f"input{index}.cc")
                source.write_text(text, encoding="utf-8")
            part = Path(folder, f"out{index}.ll")
            run_tool([tool, "-S", "-emit-llvm", "-O3", *flags, "-o", str(part), str(source)])
            parts.append(part.read_text(encoding="utf-8"))
    if len(parts) != 1:
        what = "LLVM text is made of one source"
        raise LoopwrightError(explain(what, got=f"{len(parts)} of them", instead="join them"))
    if output is not None:
        Path(output).write_text(parts[0], encoding="utf-8")
    return parts[0]


def tar(output: str | Path, files: Files) -> None:
    """Put files into an archive, by their names without folders. Raises ValueError for two of one
    name."""
    names: set[str] = set()
    with tarfile.open(output, "w:gz") as archive:
        for path in map(Path, _files(files)):
            if path.name in names:
                hint = "rename one of them"
                raise ValueError(explain("two files of one name", got=path.name, instead=hint))
            names.add(path.name)
            archive.add(path, path.name)


vars(tar)["output_format"] = "tar"


def untar(tar_file: str | Path, directory: str | Path) -> None:
    """Unpack an archive into a folder; nothing is written outside of it."""
    with tarfile.open(tar_file) as archive:
        unpack(archive, Path(directory))


def normalize_file_list_by_unpacking_tars(temp: Any, file_list: Sequence[str]) -> list[str]:
    """The files, those of archives unpacked below the temporary folder `temp`."""
    paths: list[str] = []
    for index, name in enumerate(file_list):
        if not name.endswith(".tar"):
            paths.append(name)
            continue
        folder = Path(temp.relpath(f"temp{index}"))
        folder.mkdir()
        untar(name, folder)
        paths += [str(path) for path in sorted(folder.rglob("*")) if path.is_file()]
    return paths


def _is_linux_like() -> bool:
    return sys.platform in ("darwin", "linux")


def _is_windows_like() -> bool:
    return sys.platform == "win32"


def memoize(key: str, save_at_exit: bool = False) -> Callable[[Callable[..., Any]], Any]:
    """A decorator that keeps the results of a function by its arguments. With `save_at_exit`, they are
    there for later programs too: in the file `key`.pkl of the user's cache, in TVM's folder."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @cache
        def saved() -> dict[Any, Any]:
            """The results in the file, which is written at exit."""
            folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
            file = folder / "tvm" / "pkl_memoize_py3" / f"{key}.pkl"
            own = file.exists() and weakness(file) is None  # a pickle is code
            results = pickle.loads(file.read_bytes()) if own else {}

            def save() -> None:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(pickle.dumps(results))

            atexit.register(save)
            return results

        @wraps(function)
        def call(*args: Any) -> Any:
            results = saved()
            if args not in results:
                results[args] = function(*args)
            return results[args]

        return call if save_at_exit else cache(function)

    return decorate
