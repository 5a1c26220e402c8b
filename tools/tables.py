"""What the generators of tables share: where the pinned modules are, and how a table is kept."""

import argparse
import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PINS = ROOT / "tools" / "control-plane"
DATA = ROOT / "src" / "kilonova" / "local" / "data"


@cache
def module(path: str) -> Path:
    """The folder of a pinned module, downloaded if need be."""
    reply = subprocess.run(
        ["go", "mod", "download", "-json", path], cwd=PINS, check=True, capture_output=True
    )
    return Path(json.loads(reply.stdout)["Dir"])


def generate(
    command: str, what: str, make: Callable[[], dict[str, bytes]], folder: Path = DATA
) -> None:
    """Write the tables that `make` gives, by file name, or with `--check` say which are stale.

    Files that end in `.gz` are compressed; they are compared by their text, since compressed
    bytes depend on the version of zlib.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {command}", description=what)
    parser.add_argument("--check", action="store_true", help="fail if a table is stale")
    check = parser.parse_args().check
    tables = make()
    if check:
        stale = [name for name, content in tables.items() if _stored(folder / name) != content]
        if stale:
            sys.exit(f"stale, run `python -m {command}`: {', '.join(stale)}")
        return
    for name, content in tables.items():
        packed = gzip.compress(content, 9, mtime=0) if name.endswith(".gz") else content
        (folder / name).write_bytes(packed)
        print(f"{name}: {len(packed):,} bytes", file=sys.stderr)


def _stored(path: Path) -> bytes | None:
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if path.suffix == ".gz" else content
    except (OSError, EOFError):
        return None
