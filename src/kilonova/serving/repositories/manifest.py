"""The manifest of a repository: `SHA256SUMS`, as `sha256sum` writes and checks it. Pure."""

import hashlib
import re
from collections.abc import Mapping

from kilonova.serving.repositories.errors import FileDamaged, RepositoryError

MANIFEST = "SHA256SUMS"
MAX_MANIFEST_BYTES = 64 * 1024 * 1024

_LINE = re.compile(r"([0-9A-Fa-f]{64}) [ *](.+)")
_MAX_PATH_BYTES = 4096
_FIX = f"write it with `kilonova models manifest`, or with `sha256sum` (`… > {MANIFEST}`)"


def parse_manifest(content: bytes, where: str) -> dict[str, str]:
    """The SHA-256 of each file, by its path."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise RepositoryError(where, "it is not UTF-8", _FIX) from None
    digests: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line:
            continue
        found = _LINE.fullmatch(line.removesuffix("\r"))
        if found is None:
            problem = f"line {number} is not a SHA-256 and a path: {line[:80]!r}"
            raise RepositoryError(where, problem, _FIX)
        path = check_path(found[2].removeprefix("./"), f"{where}: line {number}")
        digest = found[1].lower()
        if digests.setdefault(path, digest) != digest:
            problem = f"line {number} has another SHA-256 for {path}"
            raise RepositoryError(where, problem, _FIX)
    return digests


def encode_manifest(digests: Mapping[str, str]) -> bytes:
    """The manifest of some files: the same bytes for the same files."""
    return "".join(f"{digests[path]}  {path}\n" for path in sorted(digests)).encode()


def check_path(path: str, where: str) -> str:
    """The path of a file below the repository; `RepositoryError` if it is another one."""
    segments = path.split("/")
    problem = ""
    if any(each in ("", ".", "..") for each in segments) or "\\" in path:
        problem = "it leads out of the repository, or is not a plain relative path"
    elif any(ord(each) < 32 or ord(each) == 127 for each in path):
        problem = "it contains a control character"
    elif len(path.encode(errors="surrogatepass")) > _MAX_PATH_BYTES:
        problem = f"it is longer than {_MAX_PATH_BYTES} bytes"
    if problem:
        fix = "rename the file: paths are such as MODEL/1/model.onnx"
        raise RepositoryError(where, f"the path {path[:120]!r} is refused: {problem}", fix)
    return path


def verify_digest(where: str, found: str, expected: str) -> None:
    """Raise `FileDamaged` if a file does not have the SHA-256 that it should have."""
    if found != expected:
        problem = f"its SHA-256 is {found}, expected {expected}"
        raise FileDamaged(where, problem, "push the repository again, or correct the checksum")


def compute_digest(content: bytes) -> str:
    """The SHA-256 of a content."""
    return hashlib.sha256(content).hexdigest()
