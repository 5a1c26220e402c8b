"""Plug-ins of other packages, found by entry point."""

import os
import sys
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points


def find_entry_points(group: str) -> tuple[EntryPoint, ...]:
    """Those of installed packages, by name; they are read again when a folder of packages has
    changed."""
    return _read_entry_points(group, tuple((path, _change_time(path)) for path in sys.path))


@lru_cache(maxsize=16)
def _read_entry_points(group: str, folders: tuple[tuple[str, int], ...]) -> tuple[EntryPoint, ...]:
    return tuple(sorted(entry_points(group=group), key=lambda each: each.name))


def _change_time(path: str) -> int:
    try:
        return os.stat(path or ".").st_mtime_ns
    except OSError:
        return 0
