"""Names in messages, quoted as Go does."""

from collections.abc import Iterable

import msgspec


def quoted(word: str) -> str:
    """`"word"`, with what is special in it escaped."""
    return msgspec.json.encode(word).decode()


def quoted_list(words: Iterable[str]) -> str:
    """`["one" "two"]`."""
    return "[" + " ".join(map(quoted, words)) + "]"
