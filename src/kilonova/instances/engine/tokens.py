"""How a text is computed, token by token, from the shards of all agents. Pure.

The **context** is a digest of the model and of all text so far. Every agent turns it into a number,
its shard; the sum of all chooses the next word. Without one agent the text would be another one.
"""

import hashlib
from collections.abc import Iterable

from kilonova.openai_api.text import VOCABULARY

_MIN_TOKENS = 4
"""A text does not end before."""


def start_context(model: str, prompt: str) -> str:
    """The context before the first token."""
    return _digest(model, prompt)


def advance_context(context: str, token: str) -> str:
    """The context after a token."""
    return _digest(context, token)


def compute_shard(model: str, index: int, agents: int, context: str) -> int:
    """What an agent contributes to the next token."""
    return int(_digest(model, str(index), str(agents), context)[:8], 16)


def choose_token(shards: Iterable[int], position: int) -> str:
    """The next token, by the shards of all agents."""
    words = VOCABULARY[1:] if position < _MIN_TOKENS else VOCABULARY
    return words[sum(shards) % len(words)]


def _digest(*parts: str) -> str:
    text = "".join(f"{len(each)}:{each}" for each in parts)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
