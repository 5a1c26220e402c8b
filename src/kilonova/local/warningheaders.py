"""Warnings: sentences for the client beside the answer, in its headers."""

from collections.abc import Iterable

from kilonova.kube.transport import Reply, StreamReply

_TOTAL = 4 * 1024
_EACH = 256


def add_warnings(answer: Reply | StreamReply, warnings: Iterable[str]) -> None:
    """Warnings as headers; several go into one value, as HTTP allows."""
    if header := warning_header(warnings):
        before = answer.headers.get("warning")
        answer.headers["warning"] = f"{before}, {header}" if before else header


def warning_header(warnings: Iterable[str]) -> str:
    """The value of the header; empty where there is nothing to say."""
    return ", ".join(f'299 - "{_quoted(each)}"' for each in limited(warnings))


def limited(warnings: Iterable[str]) -> list[str]:
    """Each once; all of them shortened, and the last ones dropped, where they are too long."""
    told = [each for each in dict.fromkeys(warnings) if each]
    if sum(map(len, told)) <= _TOTAL:
        return told
    kept: list[str] = []
    length = 0
    for each in told:
        if length >= _TOTAL:
            break
        kept.append(each[:_EACH])
        length += len(kept[-1])
    return kept


def _quoted(text: str) -> str:
    text = "".join(letter if letter.isprintable() else " " for letter in text)
    return text.replace("\\", "\\\\").replace('"', '\\"')
