"""Programs that an image calls otherwise than this machine, as scripts on a container's PATH."""

import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path


def write_programs(folder: Path, programs: Mapping[str, str], search_path: str) -> bool:
    """Write a script for each program that this machine has; returns whether there are any.

    So `sh -c 'python train.py'` works where the machine has only `python3`, and so do probes and
    `kubectl exec`. A script, and not a link: an interpreter in a virtual environment would not find
    it through a link. Programs that the image calls by their path are not among them.
    """
    found = {
        name: path
        for name, program in programs.items()
        if "/" not in name and (path := shutil.which(program, path=search_path)) is not None
    }
    if not found:
        return False
    folder.mkdir(parents=True, exist_ok=True)
    for name, path in found.items():
        script = folder / name
        # Replaced as a whole: another container of the pod may be running it.
        partial = folder / f".{name}.new"
        partial.write_text(f'#!/bin/sh\nexec {shlex.quote(path)} "$@"\n')
        partial.chmod(0o755)
        partial.rename(script)
    return True
