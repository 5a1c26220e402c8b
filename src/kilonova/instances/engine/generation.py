"""Generates the text of an answer from the shards of all agents."""

from typing import Protocol

from kilonova.instances.engine.tokens import advance_context, choose_token, start_context
from kilonova.openai_api.answers import Pieces
from kilonova.openai_api.completions import CompletionRequest
from kilonova.openai_api.text import END, find_stop, join_token


class ShardSource(Protocol):
    """Has the shards of all agents, in any order."""

    async def compute_shards(self, context: str) -> list[int]: ...


async def generate_text(source: ShardSource, model: str, request: CompletionRequest) -> Pieces:
    """Pieces of the text, one for each token."""
    context = start_context(model, request.prompt)
    text = ""
    for position in range(request.max_tokens):
        token = choose_token(await source.compute_shards(context), position)
        if token == END:
            yield "", "stop"
            return
        piece = join_token(token, position)
        if (end := find_stop(text + piece, request.stop)) is not None:
            yield (text + piece)[len(text) : end], "stop"
            return
        text += piece
        yield piece, "length" if position + 1 == request.max_tokens else None
        context = advance_context(context, token)
