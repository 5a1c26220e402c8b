"""Generates the text of an answer from the shards of all agents."""

from collections.abc import AsyncGenerator
from typing import Protocol

from kilonova.instances.engine.openai import CompletionRequest, FinishReason
from kilonova.instances.engine.tokens import (
    END,
    advance_context,
    choose_token,
    join_token,
    start_context,
)


class ShardSource(Protocol):
    """Has the shards of all agents, in any order."""

    async def compute_shards(self, context: str) -> list[int]: ...


async def generate_text(
    source: ShardSource, model: str, request: CompletionRequest
) -> AsyncGenerator[tuple[str, FinishReason | None]]:
    """Pieces of the text, one for each token. The last one has the reason of the end, and may be
    empty."""
    context = start_context(model, request.prompt)
    text = ""
    for position in range(request.max_tokens):
        token = choose_token(await source.compute_shards(context), position)
        if token == END:
            yield "", "stop"
            return
        piece = join_token(token, position)
        if (end := _find_stop(text + piece, request.stop)) is not None:
            yield (text + piece)[len(text) : end], "stop"
            return
        text += piece
        yield piece, "length" if position + 1 == request.max_tokens else None
        context = advance_context(context, token)


def _find_stop(text: str, stop: tuple[str, ...]) -> int | None:
    """Where the text ends before the first stop sequence in it; None if there is none."""
    return min((at for each in stop if (at := text.find(each)) >= 0), default=None)
