"""Shared by the table generators: the pinned Go modules, and how tables are written and checked."""

import argparse
import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PINS = ROOT / "tools" / "realparts" / "locks" / "control-plane"
DATA = ROOT / "src" / "kilonova" / "local" / "data"


@cache
def find_module(path: str) -> Path:
    """The directory of a pinned module, downloaded if necessary."""
    reply = subprocess.run(
        ["go", "mod", "download", "-json", path], cwd=PINS, check=True, capture_output=True
    )
    return Path(json.loads(reply.stdout)["Dir"])


def write_tables(
    command: str, what: str, make: Callable[[], dict[str, bytes]], folder: Path = DATA
) -> None:
    """Write the tables that `make` returns, by file name, or with `--check` report stale ones.

    Files that end in `.gz` are compressed; their contents are compared, because compressed bytes
    depend on the version of zlib.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {command}", description=what)
    parser.add_argument("--check", action="store_true", help="fail if a table is stale")
    check = parser.parse_args().check
    tables = make()
    if check:
        stale = [name for name, content in tables.items() if _read_stored(folder / name) != content]
        if stale:
            sys.exit(f"stale, run `python -m {command}`: {', '.join(stale)}")
        return
    for name, content in tables.items():
        packed = gzip.compress(content, 9, mtime=0) if name.endswith(".gz") else content
        (folder / name).write_bytes(packed)
        print(f"{name}: {len(packed):,} bytes", file=sys.stderr)


def _read_stored(path: Path) -> bytes | None:
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if path.suffix == ".gz" else content
    except (OSError, EOFError):
        return None
