"""Targets: the machine that a program is compiled for, and facts about it.

    Target("llvm -mcpu=native -num-cores=2")
    Target({"kind": "cuda", "arch": "sm_90", "host": "llvm"})
    Target("cuda", host="llvm")
    with Target("c"): ...                      # Target.current() inside

A kind is a table of typed options; `register_target_kind` adds one of your own.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeVar, overload

from ..base.device_types import TYPES
from ..base.errors import NoContext, explain, suggest
from ..base.late import public_names as _public_names
from ..base.plugins import broken, load_group
from ..base.registry import Registry
from . import cpu_info
from . import datatype as datatype  # tvm.target.datatype
from .node import Node, field


@dataclass(frozen=True)
class TargetKind:
    """A kind of target: its options with their types, and the keys its targets carry.

    `options` maps an option's name to bool, int, float, str or list (of str).
    `parent` is the kind that it is a variant of, whose code generator compiles it.
    """

    name: str
    default_keys: tuple[str, ...]
    options: Mapping[str, type]
    defaults: Mapping[str, Any]
    device_type: str
    parent: str | None = None

    @property
    def lineage(self) -> tuple[str, ...]:
        """Its name, then those of the kinds that it is a variant of, the nearest first."""
        return (self.name, *(() if self.parent is None else _kind(self.parent).lineage))

    def __str__(self) -> str:
        return self.name

    @staticmethod
    def options_from_name(kind_name: str) -> dict[str, type]:
        """The options of a kind, by name."""
        return dict(_kind(kind_name).options)


KINDS: Registry[str, TargetKind] = Registry("target kind", compiles=True)
TAGS: Registry[str, dict[str, Any]] = Registry("target tag", compiles=True)
_CURRENT: ContextVar[tuple[Target, ...]] = ContextVar("current target", default=())

_COMMON: dict[str, type] = {
    "device": str,
    "model": str,
    "libs": list,
    "from_device": int,
    "target_device_type": int,
}
_NO_TARGET = "Check failed: (allow_not_defined) is false: Target context required"
_NO_TARGET_FOR_HOST = "Target host is not empty when target is empty."
_STRUCTURAL = ("kind", "tag", "keys", "host")


def register_target_kind(
    name: str, keys: Iterable[str] | None = None, options: Mapping[str, type] | None = None,
    defaults: Mapping[str, Any] | None = None, device_type: str | None = None,
    override: bool = False, *, parent: str | None = None,
) -> TargetKind:  # fmt: skip
    """Add a kind of target.

    keys: what legalizations and schedules are looked up by, in order, after the kind's name;
        ("cpu",) without.
    options: name -> bool, int, float, str or list; every kind also has device, model, libs.
    parent: the kind that this is a variant of: its options, defaults and device hold here, too,
        its rules are looked up behind this kind's, and its code generator compiles for it. With
        parent="llvm", `loopwright.compile(model, target=name)` generates code for the host.
    Raises ValueError when the name is taken and `override` is not given, or for an unknown parent.
    """
    if parent == name:
        raise ValueError(explain(f"target kind {name!r} cannot be its own parent"))
    above = None if parent is None else _kind(parent)
    inherited = ("cpu",) if above is None else (above.name, *above.default_keys)
    if keys is None:
        keys = inherited
    elif above is not None:
        keys = dict.fromkeys([*keys, *inherited])
    kind = TargetKind(
        name,
        tuple(keys),
        {**(_COMMON if above is None else above.options), **(options or {})},
        {**({} if above is None else above.defaults), **(defaults or {})},
        device_type or ("cpu" if above is None else above.device_type),
        parent,
    )
    return KINDS.register(name, kind, override=override)


def register_tag(name: str, config: Mapping[str, Any], override: bool = False) -> Target:
    """Give a target a name such as "nvidia/geforce-rtx-3090"."""
    TAGS.register(name, dict(config), override=override)
    return Target(name)


def list_tags() -> dict[str, Target]:
    """All tags with their targets."""
    return {name: Target(name) for name in sorted(TAGS)}


T = TypeVar("T")


def _option(key: str, default: T, doc: str) -> T:
    """A property of targets: the value of an option, of its default's type."""
    kind: Any = type(default)
    option: Any = property(lambda target: kind(target.attrs.get(key, default)), doc=doc)
    return option


class Target(Node):
    """The machine to compile for: a kind, keys in order of preference, options, and the host.

    Options are attributes of `attrs` (`target.attrs["mcpu"]`) under their own name ("num-cores").

    >>> target = lw.Target("llvm -mcpu=haswell -num-cores=4")
    >>> target.kind.name, target.attrs["mcpu"]
    ('llvm', 'haswell')
    >>> with target:
    ...     lw.Target.current() == target
    True
    """

    kind_name: str
    tag: str
    keys: tuple[str, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    host: Target | None = field(default=None)
    __slots__ = ("__dict__",)  # where cached properties live

    def __new__(cls, target: object = None, host: Target | str | None = None, **_: Any) -> Target:
        if isinstance(target, Target) and host is None:
            return target
        return super().__new__(cls)

    def __init__(self, target: object, host: Target | str | None = None, span: Any = None) -> None:
        if target is self:
            return
        config = dict(_config_of(target))
        if host is not None:
            config["host"] = host
        kind = _kind(config.get("kind"))
        keys = config.get("keys")
        keys = keys.split(",") if isinstance(keys, str) else keys
        settings = {k: v for k, v in config.items() if k not in _STRUCTURAL}
        options = {name: _typed(kind, name, value) for name, value in settings.items()}
        attrs = {**kind.defaults, **options}
        own_host = None if config.get("host") is None else Target(config["host"])
        made_keys = _keys_of(kind, keys, attrs)
        self._set(kind.name, str(config.get("tag", "")), made_keys, attrs, own_host, span)

    # ------------------------------------------------------------------ what it is

    @property
    def kind(self) -> TargetKind:
        """The kind: `target.kind.name`."""
        return _kind(self.kind_name)

    @property
    def lookup_keys(self) -> tuple[str, ...]:
        """Where target-specific rules are looked up, in order: kind, then keys."""
        return (self.kind_name, *(k for k in self.keys if k != self.kind_name))

    def export(self) -> dict[str, Any]:
        """The target as a plain dict, from which `Target` makes it again."""
        config: dict[str, Any] = {"kind": self.kind_name, "tag": self.tag, "keys": list(self.keys)}
        if self.host is not None:
            config["host"] = self.host.export()
        return {**config, **self.attrs}

    def __str__(self) -> str:
        words = [self.kind_name]
        if self.keys:
            words.append(f"-keys={','.join(self.keys)}")
        words += [f"-{name}={_word(value)}" for name, value in sorted(self.attrs.items())]
        if self.host is not None:
            words.append(f"-host={shlex.quote(str(self.host))}")
        return " ".join(words)

    def __repr__(self) -> str:
        return f"Target({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Target) and self.export() == other.export()

    def __hash__(self) -> int:
        return hash((self.kind_name, self.keys, str(self)))

    def __reduce__(self) -> tuple[Any, ...]:
        return (Target, (self.export(),))

    # ------------------------------------------------------------------ scope

    def __enter__(self) -> Target:
        _CURRENT.set((*_CURRENT.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _CURRENT.set(_CURRENT.get()[:-1])

    @overload
    @staticmethod
    def current(allow_none: Literal[False]) -> Target: ...
    @overload
    @staticmethod
    def current(allow_none: bool = True) -> Target | None: ...
    @staticmethod
    def current(allow_none: bool = True) -> Target | None:
        """The target of the innermost `with`. Raises ValueError outside of any, if
        `allow_none` is False."""
        stack = _CURRENT.get()
        if not stack and not allow_none:
            hint = 'use `with Target("llvm"):`'
            raise NoContext(explain("no target is set", instead=hint, tvm=_NO_TARGET))
        return stack[-1] if stack else None

    @staticmethod
    def target_or_current(target: str | Target | None) -> Target:
        """`target` as a Target, or the current one for None."""
        return Target.current(allow_none=False) if target is None else Target(target)

    # ------------------------------------------------------------------ host and devices

    def with_host(self, host: Target | str | None = None) -> Target:
        """This target with another host."""
        return Target(self, host) if host is not None else self

    @staticmethod
    def from_device(device: str) -> Target:
        """The target of a device: a `Device`, or text such as "cpu" or "cuda:0"."""
        name = str(getattr(device, "type", device)).split(":")[0]
        if name in ("cpu", "llvm"):
            return Target("llvm -mcpu=native")
        for kind in KINDS.values():
            if kind.device_type == name and kind.parent is None:
                return Target(kind.name)
        what, types = "no target is known for this device", {k.device_type for k in KINDS.values()}
        raise ValueError(explain(what, got=device, instead=f"one of {', '.join(sorted(types))}"))

    @staticmethod
    def list_kinds() -> list[str]:
        """The names of all kinds, sorted."""
        return sorted(KINDS)

    @staticmethod
    def canon_target(target: str | None) -> Target | None:
        """None stays None, all else becomes a Target."""
        return None if target is None else Target(target)

    @staticmethod
    def canon_target_and_host(
        target: str | None, target_host: str | None = None
    ) -> tuple[Target | None, Target | None]:
        """(target with its host, the host). Raises AssertionError for a host without target."""
        if target is None:
            if target_host is not None:
                what, said = "a host without a target", _NO_TARGET_FOR_HOST
                raise AssertionError(explain(what, got=target_host, tvm=said))
            return None, None
        combined = Target(target, target_host)
        return combined, combined.host

    @staticmethod
    def canon_multi_target(multi_targets: Any) -> list[Target] | None:
        """The targets of one, of a sequence, or of a dict by device; None stays None."""
        if multi_targets is None:
            return None
        if isinstance(multi_targets, Mapping) and "kind" not in multi_targets:
            multi_targets = list(multi_targets.values())
        if not isinstance(multi_targets, (list, tuple)):
            multi_targets = [multi_targets]
        return [Target(target) for target in multi_targets]

    @staticmethod
    def canon_multi_target_and_host(
        target: list[Target | str] | None, target_host: str | None = None
    ) -> list[Target]:
        """As `canon_multi_target`, with a host for those that have none. Raises AssertionError
        for no target."""
        targets = Target.canon_multi_target(target)
        if not targets:
            raise AssertionError(explain("at least one target is expected", got=target))
        return [t if t.host is not None else t.with_host(target_host) for t in targets]

    @staticmethod
    def canon_target_map_and_host(
        target_map: Mapping[Any, Any], target_host: str | None = None
    ) -> tuple[dict[Target, Any], Target | None]:
        """A dict by target with its keys as targets, all with a host: the first that one of them
        has, else `target_host`; and that host."""
        targets = [Target(target) for target in target_map]
        host = next(
            (t.host for t in targets if t.host is not None), Target.canon_target(target_host)
        )
        with_hosts = (t if t.host is not None else t.with_host(host) for t in targets)
        return dict(zip(with_hosts, target_map.values(), strict=True)), host

    # ------------------------------------------------------------------ options

    mcpu = _option("mcpu", "", 'The CPU as named: "native", "znver4", or "".')
    mtriple = _option("mtriple", "", 'The target triple as named, or "".')
    model = _option("model", "unknown", 'The model of the device, or "unknown".')
    libs = _option("libs", list[str](), "External libraries that may be used.")
    device_name = _option("device", "", 'The `device` option, or "".')
    max_num_threads = _option("max_num_threads", 1, "Threads of a GPU block; 1 on CPUs.")
    max_block_size_x = _option("max_num_threads", 1, "Threads of a GPU block along x.")
    max_block_size_y = _option("max_num_threads", 1, "Threads of a GPU block along y.")
    max_function_args = _option("max_function_args", 0, "The most arguments of a GPU kernel, or 0.")
    thread_warp_size = _option("thread_warp_size", 1, "Threads that run in lockstep; 1 on CPUs.")
    max_shared_memory_per_block = _option(
        "max_shared_memory_per_block", 0, "Bytes of GPU shared memory of a block."
    )
    vtcm_capacity = _option("vtcm-capacity", 0, "Bytes of Hexagon's memory for vectors, or 0.")
    supports_integer_dot_product = _option(
        "supports_integer_dot_product", False, "Whether a GPU has products of four bytes."
    )
    supports_cooperative_matrix = _option(
        "supports_cooperative_matrix",
        False,
        "Whether a GPU has Vulkan's matrices of thread groups.",
    )

    def get_kind_attr(self, attr_name: str) -> Any:
        """A fact of the kind: default_keys, device_type, options, defaults."""
        return getattr(self.kind, attr_name, None)

    @property
    def device_type(self) -> str:
        """The kind of device that runs the code: cpu, cuda, ..."""
        return self.kind.device_type

    def get_target_device_type(self) -> int:
        """DLPack's code of that kind of device, or the option `target_device_type`."""
        return int(self.attrs.get("target_device_type", TYPES[self.device_type]))

    @property
    def features(self) -> cpu_info.Features:
        """CPU features in LLVM's spelling ("avx2"), of `mcpu` with `mattr` applied; TVM's names of
        them are attributes (`features.has_dsp`).

        No mcpu means native where no mtriple is named but the machine's own, as code generation takes it.
        """
        return self._cpu.features

    @property
    def has_scalable_vectors(self) -> bool:
        """Whether the length of vectors is known at run time only (ARM's SVE, RISC-V's V)."""
        return not {"sve", "v"}.isdisjoint(self.features)

    @property
    def mattr(self) -> list[str]:
        """Features switched on and off: ["+avx2", "-fma"]."""
        return list(self.attrs.get("mattr", ()))

    @property
    def arch(self) -> str:
        """GPU architecture ("sm_90") where given; on CPUs x86_64, aarch64, ..."""
        return self.attrs.get("arch") or self._cpu.arch

    # ------------------------------------------------------------------ the machine

    @cached_property
    def _cpu(self) -> cpu_info.CPU:
        return cpu_info.describe(self.mcpu, tuple(self.mattr), self.mtriple)

    @property
    def is_native(self) -> bool:
        """Whether the code is for the CPU this process runs on, as far as the options say."""
        return self._cpu.native

    @property
    def vector_bits(self) -> int:
        """Width of a vector register that schedules should use: 512, 256 or 128."""
        return int(self.attrs.get("vector-width") or self._cpu.vector_bits)

    @property
    def num_vector_registers(self) -> int:
        """Vector registers the architecture names: 32 or 16."""
        return self._cpu.num_vector_registers

    @property
    def has_fma(self) -> bool:
        """Whether a multiplication and an addition are one instruction."""
        return self._cpu.has_fma

    @property
    def fma_per_cycle(self) -> int:
        """Vector multiply-adds of full width started in a cycle."""
        return self._cpu.fma_per_cycle

    def vector_lanes(self, dtype: str) -> int:
        """Elements of `dtype` in a vector register: `vector_lanes("float32")` is 16 on AVX-512."""
        from_bits = {"bool": 8}
        bits = getattr(dtype, "bits", None) or from_bits.get(str(dtype)) or _bits_of(str(dtype))
        return max(1, self.vector_bits // max(8, bits))

    @property
    def l1_cache_size_bytes(self) -> int:
        """Data cache of a core, first level."""
        return self._cpu.caches[0]

    @property
    def l2_cache_size_bytes(self) -> int:
        """Second level: the option `l2_cache_size_bytes` where given, else the CPU's."""
        return int(self.attrs.get("l2_cache_size_bytes") or self._cpu.caches[1])

    @property
    def num_cores(self) -> int:
        """The option `num-cores` where given, else the cores this process may use."""
        return int(self.attrs.get("num-cores") or cpu_info.usable_cores())


def _bits_of(dtype: str) -> int:
    from_name = "".join(c for c in dtype.split("_")[0].split("x")[0] if c.isdigit())
    return int(from_name or 32)


# ---------------------------------------------------------------------- reading


def _kind(name: Any) -> TargetKind:
    if name not in KINDS:
        load_group("loopwright.targets")
    if name in KINDS:
        return KINDS[name]
    hint = f"{suggest(name, [*KINDS, *TAGS])} (register_target_kind adds one)"
    hint = broken("loopwright.targets", name) or hint
    raise ValueError(explain("unknown target kind", got=name, instead=hint))


def _config_of(target: object) -> Mapping[str, Any]:
    if isinstance(target, Target):
        return target.export()
    if isinstance(target, Mapping):
        tag = target.get("tag")
        if "kind" not in target and isinstance(tag, str) and tag in TAGS:
            return {**TAGS[tag], **target}
        if "kind" not in target:
            what = "a target given as a dict needs a kind"
            raise ValueError(explain(what, got=dict(target), instead='add "kind": "llvm"'))
        return target
    if not isinstance(target, str):
        what = "a target is a string, a dict or a Target"
        hint = 'for instance "llvm -mcpu=native"'
        raise TypeError(explain(what, got=type(target).__name__, instead=hint))
    text = target.strip()
    if text in TAGS:
        return {**TAGS[text], "tag": text}
    if text.startswith("{"):
        try:
            return _config_of(json.loads(text))
        except (json.JSONDecodeError, RecursionError) as error:
            raise ValueError(explain(f"a target in JSON: {error}", got=repr(text[:100]))) from None
    return _parse_words(text)


def _parse_words(text: str) -> dict[str, Any]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ValueError(explain(f"target string: {error}", got=repr(text))) from None
    if not words or words[0].startswith("-"):
        what = "a target string starts with its kind"
        raise ValueError(explain(what, got=repr(text), instead='for instance "llvm -mcpu=native"'))
    kind = _kind(words[0])
    config: dict[str, Any] = {"kind": kind.name}
    rest = words[1:]
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            what = f"target string: {word!r} belongs to no option"
            raise ValueError(explain(what, got=repr(text), instead="write -name=value"))
        name, equals, value = word.lstrip("-").partition("=")
        if not equals:
            value = "1" if kind.options.get(name) is bool or not rest else rest.pop(0)
        config[name] = value
    return config


VECTOR_WIDTHS = tuple(1 << n for n in range(5, 12))  # 32 bits to the 2048 of SVE


def _typed(kind: TargetKind, name: str, value: str | int) -> Any:
    """An option's value in the option's type. Raises ValueError when it is unknown or unfit."""
    expected = kind.options.get(name)
    if expected is None:
        hint = suggest(f"-{name}", [f"-{option}" for option in sorted(kind.options)], "it has")
        raise ValueError(explain(f"target kind {kind.name} has no option", got=name, instead=hint))
    try:
        if expected is list:
            items = value.split(",") if isinstance(value, str) else value
            if not isinstance(items, (list, tuple)):
                raise TypeError
            return [str(item) for item in items if item != ""]
        if expected is bool and isinstance(value, str):
            return {"1": True, "true": True, "0": False, "false": False}[value.lower()]
        if expected is int and isinstance(value, float) and not value.is_integer():
            raise ValueError
        typed = expected(value)
    except (ValueError, TypeError, KeyError):
        what = f"option -{name} of target kind {kind.name} needs a value of type"
        raise ValueError(explain(f"{what} {expected.__name__}", got=repr(value))) from None
    if name == "vector-width" and typed not in VECTOR_WIDTHS:
        hint = f"one of {', '.join(map(str, VECTOR_WIDTHS))}"
        raise ValueError(
            explain("no vector register has this number of bits", got=typed, instead=hint)
        )
    return typed


def _keys_of(
    kind: TargetKind, keys: Sequence[str] | None, attrs: Mapping[str, Any]
) -> tuple[str, ...]:
    if keys is not None:
        return tuple(dict.fromkeys(keys))
    names = [attrs["device"]] if attrs.get("device") else []
    if "mcpu" in kind.options and kind.device_type == "cpu":
        names += cpu_info.keys_of(attrs.get("mcpu", ""), attrs.get("mtriple", ""))
    return tuple(dict.fromkeys([*names, *kind.default_keys]))


def _word(value: str | int | Sequence[str]) -> str:
    if isinstance(value, bool):
        return str(int(value))
    text = ",".join(value) if isinstance(value, (list, tuple)) else str(value)
    return shlex.quote(text)


class MemoryInfo(Node, key="target.MemoryInfo"):
    """A scope of special memory, which the function `tvm.info.mem.<scope>` returns: its size, and the
    expression of its address (None: code on the CPU cannot reach it)."""

    unit_bits: int
    max_num_bits: int
    max_simd_bits: int
    head_address: Any = field(default=None)


__dir__ = _public_names(__name__)
