"""Files that are replaced as a whole."""

import contextlib
import os
import tempfile
from pathlib import Path


def replace_file(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Write a file, or leave the old one: readers never see a part, and a crash of the machine
    loses nothing that this has returned from."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
