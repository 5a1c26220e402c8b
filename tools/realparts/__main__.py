"""`python -m tools.realparts [NAME …]`: get parts, all that the tests run unless some are named.

Progress is printed on standard error. On standard output are the paths of the parts that were
named, one on each line, or else the table of all parts.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.realparts.listing import format_json, format_table, list_parts
from tools.realparts.part import Part, PartUnavailable
from tools.realparts.parts import ON_DEMAND, PARTS, get_part


def main() -> None:
    """Get or list parts; exits with 1 if one cannot be had, after getting the others."""
    options = _parse_arguments(sys.argv[1:])
    chosen = [get_part(name) for name in options.names]
    if options.list:
        rows = list_parts(chosen or (*PARTS, *ON_DEMAND))
        print(format_json(rows) if options.output == "json" else format_table(rows))
        return
    paths = _get_parts(chosen or PARTS)
    if chosen:
        print(*paths, sep="\n")
    else:
        print(format_table(list_parts(PARTS)))


def _get_parts(parts: Sequence[Part]) -> list[Path]:
    paths: list[Path] = []
    failures: list[str] = []
    for part in parts:
        try:
            paths.append(part.get())
        except PartUnavailable as failure:
            failures.append(f"make real-parts: {part.name}: {failure}")
    if failures:
        sys.exit("\n".join(failures))
    return paths


def _parse_arguments(words: Sequence[str]) -> argparse.Namespace:
    names = [part.name for part in (*PARTS, *ON_DEMAND)]
    parser = argparse.ArgumentParser(prog="make real-parts", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(names)}")
    parser.add_argument("--list", action="store_true", help="list the parts, and get none")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    options = parser.parse_args(words)
    if unknown := [name for name in options.names if name not in names]:
        parser.error(f"no part is named {', '.join(unknown)}; there are {', '.join(names)}")
    return options


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
