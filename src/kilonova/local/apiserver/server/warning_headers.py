"""Warning headers of responses."""

from collections.abc import Iterable

from kilonova.kube.client.transport import Reply, StreamReply

_TOTAL_LIMIT = 4 * 1024
_TRUNCATED_LENGTH = 256


def add_warnings(response: Reply | StreamReply, warnings: Iterable[str]) -> None:
    """Add warnings as headers; several go into one value, as HTTP allows."""
    if header := warning_header(warnings):
        existing = response.headers.get("warning")
        response.headers["warning"] = f"{existing}, {header}" if existing else header


def warning_header(warnings: Iterable[str]) -> str:
    """The value of the header; empty without warnings."""
    return ", ".join(f'299 - "{_quote(each)}"' for each in limit_warnings(warnings))


def limit_warnings(warnings: Iterable[str]) -> list[str]:
    """Deduplicate the warnings; truncate all and drop the last ones if they are too long."""
    distinct = [each for each in dict.fromkeys(warnings) if each]
    if sum(map(len, distinct)) <= _TOTAL_LIMIT:
        return distinct
    truncated: list[str] = []
    length = 0
    for each in distinct:
        if length >= _TOTAL_LIMIT:
            break
        truncated.append(each[:_TRUNCATED_LENGTH])
        length += len(truncated[-1])
    return truncated


def _quote(text: str) -> str:
    text = "".join(letter if letter.isprintable() else " " for letter in text)
    return text.replace("\\", "\\\\").replace('"', '\\"')
