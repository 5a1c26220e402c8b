"""The words that generators without weights write, and where a text ends. Pure."""

from collections.abc import Iterable

END = ""
"""The token that ends a text."""
VOCABULARY = (
    *(END, "the", "a", "one", "each", "every", "this", "that", "fast", "slow", "bright", "quiet"),
    *("small", "large", "warm", "cold", "agent", "conductor", "rack", "block", "zone", "node"),
    *("model", "token", "shard", "cluster", "region", "engine", "answer", "question", "signal"),
    *("pattern", "number", "river", "mountain", "city", "garden", "window", "letter", "story"),
    *("joins", "leaves", "serves", "finds", "keeps", "moves", "sends", "reads", "writes", "holds"),
    *("and", "or", "but", "with", "without", "near", "beyond", "before", "after", "between"),
    *("again", "soon", "always", "often"),
)


def join_token(token: str, position: int) -> str:
    """The token as it is appended to the text."""
    return token if position == 0 else f" {token}"


def count_tokens(text: str) -> int:
    """The number of tokens of a prompt."""
    return len(text.split())


def find_stop(text: str, stop: Iterable[str]) -> int | None:
    """Where the text ends before the first stop sequence in it; None if there is none."""
    return min((at for each in stop if (at := text.find(each)) >= 0), default=None)
