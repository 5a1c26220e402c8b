"""Warnings: sentences for the client beside the answer, in its headers."""

from collections.abc import Iterable

from kilonova.kube.transport import Reply, StreamReply

_TOTAL = 4 * 1024
_EACH = 256


def add_warnings(answer: Reply | StreamReply, warnings: Iterable[str]) -> None:
    """Warnings as headers; several go into one value, as HTTP allows."""
    texts = [f'299 - "{_quoted(each)}"' for each in limited(warnings)]
    if texts:
        if "warning" in answer.headers:
            texts.insert(0, answer.headers["warning"])
        answer.headers["warning"] = ", ".join(texts)


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
