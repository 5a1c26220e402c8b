"""Compares the responses of two servers, and formats the differences."""

import difflib
import json
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

from tests.differential.allowed_differences import AllowedDifference
from tests.differential.case import Case
from tests.differential.case_runner import Observation


def format_difference(
    case: Case,
    expected: Sequence[Observation],
    actual: Sequence[Observation],
    allowed: Sequence[AllowedDifference],
) -> str:
    """A readable diff of the steps that differ; empty when none does."""
    paths = [entry.path for entry in allowed if entry.covers(case)]
    parts: list[str] = []
    for number, (step, wanted, got) in enumerate(
        zip(case.steps, expected, actual, strict=True), start=1
    ):
        wanted_lines, got_lines = (
            _format_lines(_drop_paths(side, paths)) for side in (wanted, got)
        )
        if wanted_lines != got_lines:
            lines = difflib.unified_diff(
                wanted_lines, got_lines, "kubernetes", "embedded", lineterm="", n=2
            )
            parts.append("\n".join([f"step {number}: {step.title}", *lines]))
    return "\n\n".join(parts)


def _format_lines(side: Any) -> list[str]:
    """One value per line; printed text line by line."""
    lines: list[str] = []
    for key, value in side.items():
        if isinstance(value, str):
            lines += [f"{key}: {line}" for line in value.splitlines() or [""]]
        else:
            text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False)
            lines += f"{key}: {text}".splitlines()
    return lines


def _drop_paths(value: Any, patterns: Sequence[str], path: str = "") -> Any:
    """The value without the allowed paths (`body.metadata.annotations`)."""
    if not patterns:
        return value
    if any(fnmatchcase(path, pattern) for pattern in patterns):
        return "<allowed>"
    if isinstance(value, dict):
        kept: dict[str, Any] = {}
        for key, item in value.items():
            below = _drop_paths(item, patterns, f"{path}.{key}" if path else str(key))
            if below != "<allowed>":
                kept[key] = below
        return kept
    if isinstance(value, list):
        return [_drop_paths(item, patterns, f"{path}.{index}") for index, item in enumerate(value)]
    return value
