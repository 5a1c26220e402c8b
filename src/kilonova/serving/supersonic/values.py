"""Values of a release: those of the user over the defaults, checked against the table of keys."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Iterator, Mapping
from typing import Any, cast

from kilonova.serving.supersonic.findings import Findings
from kilonova.serving.supersonic.keys import (
    ABSENT,
    KEYS,
    SUBCHARTS,
    Effect,
    Path,
    ValueKey,
    ValueType,
    format_path,
)
from kilonova.serving.supersonic.value_types import FIXES, has_type, to_text
from kilonova.yaml_files import format_value

_SERVERS, _NEW_SERVERS = "triton", "inferenceServer"
_CLOSED = (("prometheus", "external"),)
_SWITCHED_SECTIONS = (
    "keda",
    "scaleFromZero",
    "prometheus",
    "grafana",
    "tempo",
    "opentelemetry-collector",
    "metricsCollector",
)
"""What is below these has no effect in SuperSONIC, either, unless `enabled` is true there."""

_OPTIONAL = (ValueType.TEXTS, ValueType.OBJECTS, ValueType.OBJECT, ValueType.MAP)
"""Types of keys whose default `null` removes; others are needed, and have their default again."""
_MAX_WHOLE = 2**31 - 1

Tree = dict[str, Any]


class Values:
    """Values with the defaults of SuperSONIC. Paths are written with dots."""

    def __init__(self, given: Tree, merged: Tree) -> None:
        self._given = given
        self._merged = merged

    def has(self, path: str) -> bool:
        """Whether the user gave a value, be it the default; `null` is none."""
        return _find(self._given, tuple(path.split("."))) not in (ABSENT, None)

    def is_set(self, path: str) -> bool:
        """Whether there is a value, be it the default."""
        return _find(self._merged, tuple(path.split("."))) not in (ABSENT, None)

    def flag(self, path: str) -> bool:
        return bool(self._get(path))

    def text(self, path: str) -> str:
        """The text; empty if there is none."""
        return cast(str, self._get(path) or "")

    def whole(self, path: str) -> int:
        return int(cast(float, self._get(path)))

    def number(self, path: str) -> float:
        return cast(float, self._get(path))

    def texts(self, path: str) -> list[str]:
        return list(cast(list[str], self._get(path) or ()))

    def objects(self, path: str) -> list[Tree]:
        return copy.deepcopy(cast(list[Tree], self._get(path) or []))

    def object(self, path: str) -> Tree:
        return copy.deepcopy(cast(Tree, self._get(path) or {}))

    def map(self, path: str) -> dict[str, str]:
        """Labels or annotations."""
        found = cast(Tree, self._get(path) or {})
        return {name: to_text(value) for name, value in found.items() if value is not None}

    def _get(self, path: str) -> object:
        names = tuple(path.split("."))
        found = _find(self._merged, names)
        if found is ABSENT and (key := KEYS.get(names)) and key.type not in _OPTIONAL:
            found = key.default
        return None if found is ABSENT else found


def load_values(given: Mapping[str, Any], findings: Findings) -> Values:
    """Check the values of a user, and put them over the defaults, as Helm does."""
    tree = _rename_servers(copy.deepcopy(dict(given)), findings)
    for path, value in _walk(tree, (), findings):
        _check(KEYS[path], value, findings)
    findings.raise_problems()
    merged = build_defaults()
    _merge(merged, tree)
    _report_unused(tree, merged, findings)
    return Values(tree, merged)


def build_defaults() -> Tree:
    """The values of SuperSONIC without a values file."""
    tree: Tree = {}
    for key in KEYS.values():
        if key.default is not ABSENT:
            place = tree
            for name in key.path[:-1]:
                place = place.setdefault(name, {})
            place[key.path[-1]] = copy.deepcopy(key.default)
    return tree


def _rename_servers(tree: Tree, findings: Findings) -> Tree:
    """Newer charts say inferenceServer for triton."""
    if _NEW_SERVERS not in tree:
        return tree
    if _SERVERS in tree:
        findings.refuse(_NEW_SERVERS, f"is the same as {_SERVERS}: write one of them")
    tree[_SERVERS] = tree.pop(_NEW_SERVERS)
    return tree


def _walk(tree: object, path: Path, findings: Findings) -> Iterator[tuple[Path, object]]:
    """The values of keys of the table; others are reported."""
    if not isinstance(tree, dict):
        if tree is not None:
            fix = FIXES[ValueType.OBJECT]
            findings.refuse(
                format_path(path) or "the file", f"{format_value(tree)} is invalid: {fix}"
            )
        return
    for name, value in cast(dict[object, object], tree).items():
        below = (*path, str(name))
        if below in KEYS:
            yield below, value
        elif _is_section(below):
            yield from _walk(value, below, findings)
        else:
            _report_unknown(below, findings)


def _report_unknown(path: Path, findings: Findings) -> None:
    below = (each for each in KEYS if each[: len(path) - 1] == path[:-1])
    names = sorted({each[len(path) - 1] for each in below if _is_current(each)})
    near = difflib.get_close_matches(path[-1], names, n=1, cutoff=0.7)
    is_subchart = any(path[: len(each)] == each for each in SUBCHARTS)
    if is_subchart and not near and not any(path[: len(each)] == each for each in _CLOSED):
        findings.warn(format_path(path), f"without effect: there is no subchart {path[0]}")
        return
    if near:
        fix = f"do you mean {format_path((*path[:-1], near[0]))}?"
    elif elsewhere := _find_elsewhere(path[-1]):
        fix = f"do you mean {format_path(elsewhere)}?"
    else:
        fix = f"choose from {', '.join(names)}"
    findings.refuse(format_path(path), f"unknown key: {fix}")


def _is_current(path: Path) -> bool:
    key = KEYS.get(path)
    return key is None or key.effect is not Effect.REFUSED


def _find_elsewhere(name: str) -> Path | None:
    """A key of the same or a similar name in another place."""
    by_name = {each[-1]: each for each in KEYS if _is_current(each)}
    near = difflib.get_close_matches(name, by_name, n=1, cutoff=0.85)
    return by_name[near[0]] if near else None


def _check(key: ValueKey, value: object, findings: Findings) -> None:
    if key.effect is Effect.REFUSED:
        if value != key.default:
            findings.refuse(key.name, key.here)
        return
    if value is None:
        return
    if not has_type(value, key.type):
        shown = f"{format_value(value)} is invalid"
        findings.refuse(key.name, f"{shown}: {FIXES[key.type]}")
    elif key.choices and value not in key.choices:
        choices = ", ".join(filter(None, key.choices))
        more = f". {key.here}" if len(key.choices) == 1 else ""
        findings.refuse(key.name, f"{value!r} is invalid: choose from {choices}{more}")
    elif isinstance(value, int | float):
        _check_bounds(key, value, findings)


def _check_bounds(key: ValueKey, value: float, findings: Findings) -> None:
    maximum = _MAX_WHOLE if key.maximum is None and key.type is ValueType.WHOLE else key.maximum
    if key.minimum is not None and value < key.minimum:
        findings.refuse(key.name, f"{value} is invalid: write at least {key.minimum}")
    elif maximum is not None and value > maximum:
        findings.refuse(key.name, f"{value} is invalid: write at most {maximum}")


def _merge(into: Tree, tree: Tree, place: Path = ()) -> None:
    """Objects are merged, everything else is replaced, and null removes a default; a section of
    which nothing is written, such as `keda:`, has its defaults."""
    for name, value in tree.items():
        path = (*place, name)
        if value is None:
            if not _is_section(path):
                into.pop(name, None)
        elif isinstance(value, dict) and isinstance(into.get(name), dict):
            _merge(into[name], cast(Tree, value), path)
        else:
            into[name] = value


def _is_section(path: Path) -> bool:
    return path not in KEYS and any(each[: len(path)] == path for each in KEYS)


def _find(tree: Tree, path: Path) -> Any:
    place: Any = tree
    for name in path:
        if not isinstance(place, dict) or name not in place:
            return ABSENT
        place = cast(Tree, place)[name]
    return place


def _report_unused(tree: Tree, merged: Tree, findings: Findings) -> None:
    """One warning for all keys that are without effect for the same reason."""
    by_reason: dict[str, list[str]] = {}
    for key in KEYS.values():
        value = _find(tree, key.path)
        section = key.path[0]
        is_off = section in _SWITCHED_SECTIONS and not merged[section].get("enabled")
        if key.effect is Effect.UNUSED and not is_off and value not in (ABSENT, None, key.default):
            by_reason.setdefault(key.here, []).append(key.name)
    for reason, names in by_reason.items():
        findings.warn(", ".join(names), f"without effect: {reason}")
