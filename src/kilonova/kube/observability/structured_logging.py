"""Structured logs on the standard `logging` module.

A line is a message and fields: `log.info("bound", pod="team/worker-0", node="n1")`. On a terminal
lines are formatted for a person; elsewhere each is one JSON object. Lines of libraries (uvicorn,
aiohttp) have the same form.

Secrets are redacted: values of fields whose name indicates that they are credentials, the data of
Secrets, and bearer tokens and private keys inside any text.
"""

import logging
import os
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from itertools import pairwise
from typing import Any, TextIO, cast

import msgspec

LOG_LEVEL_VARIABLE = "KILONOVA_LOG"
REDACTED = "<redacted>"


class Logger:
    """Logs lines of one module; `bind` adds fields to every line."""

    __slots__ = ("_fields", "_logger")

    def __init__(self, logger: logging.Logger, fields: Mapping[str, object] | None = None) -> None:
        self._logger = logger
        self._fields = dict(fields or {})

    def bind(self, **fields: object) -> "Logger":
        """A logger whose lines also carry these fields."""
        return Logger(self._logger, self._fields | fields)

    def is_enabled(self, level: int) -> bool:
        """Whether lines of this level are written, for fields that are costly to compute."""
        return self._logger.isEnabledFor(level)

    def debug(self, message: str, /, **fields: object) -> None:
        if self._logger.isEnabledFor(logging.DEBUG):
            self._write(logging.DEBUG, message, fields)

    def info(self, message: str, /, **fields: object) -> None:
        if self._logger.isEnabledFor(logging.INFO):
            self._write(logging.INFO, message, fields)

    def warning(self, message: str, /, **fields: object) -> None:
        if self._logger.isEnabledFor(logging.WARNING):
            self._write(logging.WARNING, message, fields)

    def error(self, message: str, /, **fields: object) -> None:
        if self._logger.isEnabledFor(logging.ERROR):
            self._write(logging.ERROR, message, fields)

    def exception(self, message: str, /, **fields: object) -> None:
        """Log an error with the traceback of the exception being handled."""
        if self._logger.isEnabledFor(logging.ERROR):
            self._write(logging.ERROR, message, fields, traceback=True)

    def _write(
        self, level: int, message: str, fields: dict[str, object], traceback: bool = False
    ) -> None:
        extra = {"fields": self._fields | fields if self._fields else fields}
        self._logger.log(level, message, extra=extra, exc_info=traceback, stacklevel=3)


def get_logger(name: str, **fields: object) -> Logger:
    """The logger of a module (`get_logger(__name__)`), with fields for each of its lines."""
    return Logger(logging.getLogger(name), fields)


def configure_logging(
    level: str | None = None, stream: TextIO | None = None, as_json: bool | None = None
) -> None:
    """Send all logs of the process to `stream` (standard error), replacing earlier settings.

    The level is the argument, else `KILONOVA_LOG`, else info. JSON unless the stream is a terminal.
    """
    number = _parse_level(level or os.environ.get(LOG_LEVEL_VARIABLE) or "info")
    stream = stream or sys.stderr
    terminal = stream is not None and stream.isatty()
    formatter: logging.Formatter
    if as_json is None:
        as_json = not terminal
    if as_json:
        formatter = JsonFormatter()
    else:
        formatter = HumanFormatter(colour=terminal and "NO_COLOR" not in os.environ)
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(number)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": _format_timestamp(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name, value in _record_fields(record).items():
            # A field must not overwrite a standard key of the line.
            line[f"{name}_" if name in line else name] = redact_field(name, value)
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return _redact_text(msgspec.json.encode(line, enc_hook=str).decode())


class HumanFormatter(logging.Formatter):
    """`12:30:01 info  bound  pod=team/worker-0 node=n1`, warnings and errors in colour."""

    def __init__(self, colour: bool = False) -> None:
        super().__init__()
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        level = f"{record.levelname.lower():<7}"
        fields = " ".join(
            f"{name}={_format_value(redact_field(name, value))}"
            for name, value in _record_fields(record).items()
        )
        if self._colour:
            time, level = _format_dim(time), _format_coloured(level, record.levelno)
            fields = _format_dim(fields) if fields else ""
        line = f"{time} {level} {record.getMessage()}"
        if fields:
            line += f"  {fields}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return _redact_text(line)


def redact_field(name: str, value: object) -> object:
    """The value of a field, redacted if it is secret.

    Numbers are not redacted: a count of tokens is not a token.
    """
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if _is_secret_name(name):
        return REDACTED
    if isinstance(value, dict):
        return _redact_object(cast("dict[object, object]", value))
    if isinstance(value, (list, tuple)):
        return [redact_field(name, item) for item in cast("list[object]", value)]
    if isinstance(value, (bytes, bytearray)):
        return f"<{len(value)} bytes>"
    return value


def _redact_object(value: dict[object, object]) -> dict[str, object]:
    is_secret = value.get("kind") == "Secret"
    return {
        str(key): REDACTED
        if is_secret and key in ("data", "stringData")
        else redact_field(str(key), item)
        for key, item in value.items()
    }


_SECRET_WORDS = frozenset(
    {"token", "password", "passwd", "passphrase", "authorization", "bearer"}
    | {"credential", "credentials", "cookie", "jwt"}
)
_SECRET_PAIRS = frozenset(
    {
        ("api", "key"),
        ("access", "key"),
        ("private", "key"),
        ("secret", "key"),
        ("signing", "key"),
        ("session", "key"),
        ("key", "data"),
        ("key", "pem"),
        ("client", "secret"),
        ("id", "token"),
    }
)


@lru_cache(maxsize=4096)
def _is_secret_name(name: str) -> bool:
    # By words, so that `tokenizer`, `key` (of a queue) and `secret` (a Secret's name) are not
    # redacted.
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
    words = [word.lower() for word in words]
    return any(word in _SECRET_WORDS for word in words) or any(
        pair in _SECRET_PAIRS for pair in pairwise(words)
    )


_SECRET_TEXT = re.compile(
    r"(?P<kept>\bbearer\s+)[\w.~+/=-]+"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)",
    re.IGNORECASE | re.DOTALL,
)


def _redact_text(line: str) -> str:
    return _SECRET_TEXT.sub(lambda match: (match["kept"] or "") + REDACTED, line)


def _record_fields(record: logging.LogRecord) -> dict[str, Any]:
    fields: object = getattr(record, "fields", None)
    return cast("dict[str, Any]", fields) if isinstance(fields, dict) else {}


def _format_timestamp(record: logging.LogRecord) -> str:
    time = datetime.fromtimestamp(record.created, UTC)
    return time.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _format_value(value: object) -> str:
    text = (
        msgspec.json.encode(value, enc_hook=str).decode()
        if isinstance(value, (dict, list))
        else str(value)
    )
    plain = text and not re.search(r'[\s"=]', text)
    return text if plain else msgspec.json.encode(text).decode()


def _format_dim(text: str) -> str:
    return f"\x1b[2m{text}\x1b[0m"


def _format_coloured(text: str, level: int) -> str:
    if level >= logging.ERROR:
        return f"\x1b[31m{text}\x1b[0m"
    if level >= logging.WARNING:
        return f"\x1b[33m{text}\x1b[0m"
    return text


_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


def _parse_level(name: str) -> int:
    try:
        return _LEVELS[name.lower()]
    except KeyError:
        known = ", ".join(_LEVELS)
        raise ValueError(
            f"unknown log level {name!r} (in {LOG_LEVEL_VARIABLE}?): one of {known}"
        ) from None
