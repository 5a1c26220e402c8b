"""Test cases of a tokenizer: texts, with the ids that they had when it was added. Blocking.

A case finds what checksums do not: another version of the library that encodes otherwise.
"""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import msgspec

from kilonova.artifacts.tokenizers.cache_info import TEST_CASES_FILE, TOKENIZER_FILE, Files
from kilonova.artifacts.tokenizers.errors import InvalidTokenizer, TokenizerUnavailable
from kilonova.yaml_files import describe_mismatch

SAMPLES = (
    "Hello, world!",
    "The quick brown fox jumps over 13 lazy dogs.",
    "def add(a, b):\n    return a + b\n",
    "Größe, naïve, Ελληνικά, 東京, 🚀",
    "  two spaces, a tab\tand a line\n",
)
"""The texts of the cases that `add` leaves behind, unless others are given."""

_LOADER = Path(__file__).with_name("loader.py")
_LOAD_SECONDS = 60.0
_MAX_SHOWN = 300


class TestCase(msgspec.Struct, frozen=True):
    """A text, its ids, and what these ids are decoded to."""

    __test__ = False  # for pytest

    text: str
    ids: tuple[int, ...]
    decoded: str


class _Result(msgspec.Struct, frozen=True):
    cases: tuple[TestCase, ...] = ()
    problem: str = ""


def is_library_installed() -> bool:
    """Whether tokenizers can be loaded here."""
    return find_spec("tokenizers") is not None


def record_cases(files: Files, texts: tuple[str, ...], where: str) -> bytes:
    """The file with a case for each text; `InvalidTokenizer` if the tokenizer does not load, or
    loses the first text."""
    cases = _encode(files, texts, where)
    for case in cases[:1]:
        if not case.ids or _compact(case.decoded) != _compact(case.text):
            problem = f"it loses text: {case.text!r} becomes {case.decoded!r}"
            raise InvalidTokenizer(where, problem, "give another text with --text, or correct it")
    return msgspec.json.format(msgspec.json.encode(cases), indent=2) + b"\n"


def run_cases(files: Files, where: str) -> int:
    """Encode and decode the texts of all cases again; `InvalidTokenizer` if one differs. Returns
    their number."""
    expected = _parse_cases(files.get(TEST_CASES_FILE), where)
    found = _encode(files, tuple(each.text for each in expected), where)
    for number, (before, now) in enumerate(zip(expected, found, strict=True)):
        field = f"{where}/{TEST_CASES_FILE}: [{number}]"
        fix = "use the version of the library that it was added with, or add it again"
        if now.ids != before.ids:
            problem = f"{_show(before.text)} has the ids {_show(now.ids)}, not {_show(before.ids)}"
            raise InvalidTokenizer(field, problem, fix)
        if now.decoded != before.decoded:
            problem = f"{_show(before.text)} is decoded to {_show(now.decoded)}"
            raise InvalidTokenizer(field, problem, fix)
    return len(expected)


def _encode(files: Files, texts: tuple[str, ...], where: str) -> tuple[TestCase, ...]:
    where = f"{where}/{TOKENIZER_FILE}"
    if not is_library_installed():
        fix = "pip install 'kilonova[tokenizers]'"
        raise TokenizerUnavailable(where, "the library tokenizers is not installed", fix)
    try:
        done = subprocess.run(  # noqa: S603 (our own program)
            [sys.executable, "-I", str(_LOADER)],
            input=msgspec.json.encode(texts) + b"\n" + files[TOKENIZER_FILE],
            capture_output=True,
            timeout=_LOAD_SECONDS,
            env={**os.environ, "TOKENIZERS_PARALLELISM": "false"},
            check=False,
        )
    except subprocess.TimeoutExpired:
        problem = f"it does not load within {_LOAD_SECONDS:.0f} s"
        raise InvalidTokenizer(where, problem, _REPLACE) from None
    if done.returncode != 0:
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        problem = f"the library failed with status {done.returncode}: {last[:_MAX_SHOWN]}"
        raise InvalidTokenizer(where, problem, _REPLACE)
    result = msgspec.json.decode(done.stdout, type=_Result)
    if result.problem:
        raise InvalidTokenizer(where, result.problem[:_MAX_SHOWN], _REPLACE)
    return result.cases


def _parse_cases(content: bytes | None, where: str) -> tuple[TestCase, ...]:
    where = f"{where}/{TEST_CASES_FILE}"
    if content is None:
        raise InvalidTokenizer(where, "the file is missing", _REPLACE)
    try:
        source = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidTokenizer(where, f"it is not JSON: {error}", _REPLACE) from None
    try:
        cases = msgspec.convert(source, tuple[TestCase, ...])
    except msgspec.ValidationError as error:
        found = describe_mismatch(source, tuple[TestCase, ...], error)
        raise InvalidTokenizer(f"{where}: {found.field}", found.problem, found.fix) from None
    if not cases:
        raise InvalidTokenizer(where, "it has no test case", _REPLACE)
    return cases


def _compact(text: str) -> str:
    """A text as every tokenizer keeps it: some lower the case, some change spaces."""
    return "".join(text.split()).casefold()


def _show(value: object) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


_REPLACE = "add the tokenizer again with `kilonova tokenizers add --replace`"
