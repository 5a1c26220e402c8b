"""`tokenizer_cache_info.json`: what a tokenizer is, and the checksums of its files. Pure."""

import hashlib
import re
from collections.abc import Mapping

import msgspec

from kilonova.artifacts.tokenizers.errors import InvalidTokenizer
from kilonova.artifacts.tokenizers.names import is_canonical
from kilonova.yaml_files import describe_mismatch

CACHE_INFO_FILE = "tokenizer_cache_info.json"
TEST_CASES_FILE = "tokenizer_test_cases.json"
TOKENIZER_FILE = "tokenizer.json"
OWN_FILES = frozenset({CACHE_INFO_FILE, TEST_CASES_FILE})
"""What the store adds to the files of a tokenizer."""

Files = Mapping[str, bytes]
"""The content of files, by name."""

_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_FILE_NAME = re.compile(r"[A-Za-z0-9_][\w.-]{0,254}", re.ASCII)


class CachedFile(msgspec.Struct, frozen=True):
    """A file of a tokenizer."""

    path: str
    """Its name; tokenizers have no folders."""
    size: int
    """In bytes."""
    sha256: str
    """In lower-case hexadecimal digits."""


class CacheInfo(msgspec.Struct, frozen=True):
    """A tokenizer of a store."""

    name: str
    """The canonical name: `org/model`."""
    source: str
    """Where it was added from."""
    revision: str
    """The commit, the digest, or the checksum of all files, where it was added from."""
    files: tuple[CachedFile, ...]
    """The files, by name."""


def build_cache_info(name: str, source: str, revision: str, files: Files) -> CacheInfo:
    """Describe files; without a revision, it is made from their checksums."""
    listed = tuple(
        CachedFile(path, len(content), hashlib.sha256(content).hexdigest())
        for path, content in sorted(files.items())
        if path not in OWN_FILES
    )
    lines = "".join(f"{each.sha256}  {each.path}\n" for each in listed)
    fallback = f"sha256:{hashlib.sha256(lines.encode()).hexdigest()}"
    return CacheInfo(name, source, revision or fallback, listed)


def encode_cache_info(info: CacheInfo) -> bytes:
    """The content of the file."""
    return msgspec.json.format(msgspec.json.encode(info), indent=2) + b"\n"


def parse_cache_info(content: bytes, where: str) -> CacheInfo:
    """Read the file; `InvalidTokenizer` with the field that is wrong."""
    where = f"{where}/{CACHE_INFO_FILE}"
    try:
        source = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidTokenizer(where, f"it is not JSON: {error}", _ADD_AGAIN) from None
    try:
        info = msgspec.convert(source, CacheInfo)
    except msgspec.ValidationError as error:
        found = describe_mismatch(source, CacheInfo, error)
        raise InvalidTokenizer(f"{where}: {found.field}", found.problem, found.fix) from None
    if not is_canonical(info.name):
        raise InvalidTokenizer(f"{where}: name", f"{info.name!r} is not ORG/MODEL", _ADD_AGAIN)
    for number, each in enumerate(info.files):
        if not is_file_name(each.path):
            problem = f"{each.path!r} is not the name of a file"
            raise InvalidTokenizer(f"{where}: files[{number}].path", problem, _ADD_AGAIN)
        if not _SHA256.fullmatch(each.sha256):
            problem = "it is not a SHA-256 in lower-case hexadecimal digits"
            raise InvalidTokenizer(f"{where}: files[{number}].sha256", problem, _ADD_AGAIN)
    return info


def verify_files(info: CacheInfo, files: Files, where: str) -> None:
    """Raise `InvalidTokenizer` unless the files are those that are listed, unchanged."""
    listed = {each.path: each for each in info.files}
    if TOKENIZER_FILE not in listed:
        raise InvalidTokenizer(where, f"{CACHE_INFO_FILE} lists no {TOKENIZER_FILE}", _ADD_AGAIN)
    for path in sorted(files.keys() - listed.keys() - OWN_FILES):
        fix = f"remove it, or add the tokenizer again: a runtime would read {path}"
        raise InvalidTokenizer(f"{where}/{path}", f"it is not listed in {CACHE_INFO_FILE}", fix)
    for path, expected in listed.items():
        if path not in files:
            raise InvalidTokenizer(f"{where}/{path}", "the file is missing", _ADD_AGAIN)
        found = hashlib.sha256(files[path]).hexdigest()
        if found != expected.sha256 or len(files[path]) != expected.size:
            problem = f"the file was changed: its SHA-256 is {found}, expected {expected.sha256}"
            raise InvalidTokenizer(f"{where}/{path}", problem, _ADD_AGAIN)


def is_file_name(text: str) -> bool:
    """Whether it can be the name of a file of a tokenizer, in every store."""
    return _FILE_NAME.fullmatch(text) is not None


_ADD_AGAIN = "add the tokenizer again with `kilonova tokenizers add --replace`"
