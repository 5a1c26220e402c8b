"""Quotes names in messages as Go does."""

from collections.abc import Iterable

import msgspec


def go_quote(text: str) -> str:
    """`"word"`, with special characters escaped."""
    return msgspec.json.encode(text).decode()


def go_quote_list(texts: Iterable[str]) -> str:
    """`["one" "two"]`."""
    return "[" + " ".join(map(go_quote, texts)) + "]"
