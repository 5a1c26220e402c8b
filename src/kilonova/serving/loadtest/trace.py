"""Traces of requests, from CSV files.

A file has a header. The time of a request is in `time` (seconds) or `TIMESTAMP` (date and time, as
in the public traces of Azure); `prompt_tokens` or `ContextTokens`, and `completion_tokens` or
`GeneratedTokens`, specify how large it is.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from kilonova.serving.loadtest.outcome import RequestSize

MAX_REQUESTS = 5_000_000
_TIME = ("time", "timestamp")
_PROMPT = ("prompt_tokens", "contexttokens")
_COMPLETION = ("completion_tokens", "generatedtokens")


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """A request of a trace."""

    at: float
    """Seconds after the first request."""
    size: RequestSize


class TraceError(Exception):
    """A file that is no trace; the message names file, line and fix."""


def read_trace(file: Path, *, speed: float = 1.0) -> tuple[TraceRequest, ...]:
    """The requests, by time; `speed` 2 replays them in half of the time."""
    try:
        with file.open(newline="", encoding="utf-8-sig") as lines:
            found = _parse(csv.DictReader(lines), str(file))
    except OSError as error:
        raise TraceError(f"{file} cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise TraceError(f"{file} is no CSV file: {error}") from None
    if not found:
        raise TraceError(f"{file} has no requests")
    first = min(at for at, _ in found)
    found.sort(key=lambda each: each[0])
    return tuple(TraceRequest((at - first) / speed, size) for at, size in found)


def _parse(reader: "csv.DictReader[str]", file: str) -> list[tuple[float, RequestSize]]:
    columns = {name.strip().lower(): name for name in reader.fieldnames or ()}
    time = _find_column(columns, _TIME)
    if time is None:
        raise TraceError(f"{file} has no column `time` (seconds) or `TIMESTAMP`")
    prompt, completion = (_find_column(columns, names) for names in (_PROMPT, _COMPLETION))
    found: list[tuple[float, RequestSize]] = []
    for row in reader:
        where = f"{file}, line {reader.line_num}"
        if len(found) == MAX_REQUESTS:
            raise TraceError(f"{where}: there are more than {MAX_REQUESTS} requests")
        size = RequestSize(_parse_count(row, prompt, where), _parse_count(row, completion, where))
        found.append((_parse_time(row[time], where), size))
    return found


def _find_column(columns: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((columns[name] for name in names if name in columns), None)


def _parse_time(text: str | None, where: str) -> float:
    try:
        return float(text or "")
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat((text or "").strip()[:26])  # microseconds
    except ValueError:
        raise TraceError(
            f"{where}: {text!r} is no time: write seconds, or 2026-11-19 14:00:00.5"
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _parse_count(row: Mapping[str, str | None], column: str | None, where: str) -> int | None:
    if column is None or not row[column]:
        return None
    try:
        count = int(row[column] or "")
        if count < 0:
            raise ValueError
    except ValueError:
        raise TraceError(f"{where}: {column} is {row[column]!r}: write a whole number") from None
    return count
