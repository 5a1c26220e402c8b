"""Tokens are words: a token is a number of 32 bits that follows from its word. Pure."""

from zlib import crc32

from kilonova.openai_api.text import VOCABULARY


def encode_words(text: str) -> list[int]:
    """The tokens of a text."""
    return [crc32(word.encode(errors="surrogatepass")) for word in text.split()]


_WORDS = VOCABULARY[1:]
TOKENS = tuple(crc32(word.encode()) for word in _WORDS)
"""The tokens that are generated."""
_BY_TOKEN = dict(zip(TOKENS, _WORDS, strict=True))


def decode_token(token: int) -> str:
    """The word of a generated token."""
    return _BY_TOKEN[token]
