"""Checksum files, as `sha256sum` writes and checks them."""

import hashlib
import re

from kilonova.artifacts.builds.errors import InvalidBuild

_CHECKSUM = re.compile(rb"([0-9A-Fa-f]{64})(?:[ \t]+\*?[^\r\n]*)?\s*")


def build_checksum_file(content: bytes, name: str) -> bytes:
    """The checksum of a file, for `sha256sum --check`."""
    return f"{hashlib.sha256(content).hexdigest()}  {name}\n".encode()


def verify_checksum(content: bytes, checksum_file: bytes, where: str) -> None:
    """Raise `InvalidBuild` if the content does not have the checksum of the file."""
    stated = _CHECKSUM.fullmatch(checksum_file)
    if stated is None:
        fix = "write it with `sha256sum`"
        raise InvalidBuild(f"{where}.sha256", "it has no SHA-256 in hexadecimal digits", fix)
    expected, found = stated[1].decode().lower(), hashlib.sha256(content).hexdigest()
    if found != expected:
        problem = f"the file is damaged: its SHA-256 is {found}, expected {expected}"
        raise InvalidBuild(where, problem, "publish the build again")
