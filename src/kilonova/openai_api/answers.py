"""From the pieces of a text to the reply, whole or as server-sent events."""

import secrets
from collections.abc import AsyncGenerator, Callable

import msgspec

from kilonova.kube.client.transport import Reply, StreamReply
from kilonova.openai_api.completions import CompletionFailed, CompletionRequest
from kilonova.openai_api.responses import (
    FinishReason,
    Head,
    Usage,
    build_chunk,
    build_response,
    encode_event,
)

Pieces = AsyncGenerator[tuple[str, FinishReason | None]]
"""The text, a piece for each token. The last one has the reason of the end, and may be empty.
Raises `CompletionFailed`; closing it abandons the rest."""

_JSON = {"content-type": "application/json"}
_EVENTS = {"content-type": "text/event-stream", "cache-control": "no-cache"}


async def answer_completion(
    request: CompletionRequest, created: int, pieces: Pieces, count_usage: Callable[[int], Usage]
) -> Reply | StreamReply:
    """The reply to a request; `count_usage` turns the number of pieces into the usage."""
    is_chat = request.kind == "chat.completion"
    id = f"{'chatcmpl' if is_chat else 'cmpl'}-{secrets.token_hex(12)}"
    head = Head(id, is_chat, created, request.model)
    try:
        if request.is_stream:
            # An error of the first token is a status; later ones are an event.
            first = await anext(pieces)
            return StreamReply(
                200, _stream(request, head, first, pieces, count_usage), dict(_EVENTS)
            )
        return await _answer_whole(head, pieces, count_usage)
    except CompletionFailed as error:
        return failure_reply(error)


def failure_reply(error: CompletionFailed) -> Reply:
    """The reply to a request that is not answered."""
    headers = dict(_JSON)
    if error.retry_seconds:
        headers["retry-after"] = str(error.retry_seconds)
    return Reply(error.status, msgspec.json.encode(error.build_body()), headers)


async def _answer_whole(head: Head, pieces: Pieces, count_usage: Callable[[int], Usage]) -> Reply:
    parts: list[str] = []
    finish: FinishReason = "length"
    async for piece, end in pieces:
        parts.append(piece)
        finish = end or finish
    body = build_response(head, "".join(parts), finish, count_usage(len(parts)))
    return Reply(200, msgspec.json.encode(body), dict(_JSON))


async def _stream(
    request: CompletionRequest,
    head: Head,
    first: tuple[str, FinishReason | None],
    rest: Pieces,
    count_usage: Callable[[int], Usage],
) -> AsyncGenerator[bytes]:
    if head.is_chat:
        yield build_chunk(head, "", None)
    count = 1
    try:
        piece, finish = first
        yield build_chunk(head, piece or None, finish)
        async for piece, finish in rest:
            count += 1
            yield build_chunk(head, piece or None, finish)
    except CompletionFailed as error:
        # The status is sent already: the stream ends with an error, and without [DONE].
        yield encode_event(error.build_body())
        return
    finally:
        await rest.aclose()
    if request.with_usage:
        yield build_chunk(head, None, None, count_usage(count))
    yield b"data: [DONE]\n\n"
