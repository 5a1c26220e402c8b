"""Streams of bytes in pieces of one size."""

from collections.abc import AsyncGenerator, AsyncIterable


async def split_stream(body: AsyncIterable[bytes], size: int) -> AsyncGenerator[bytes]:
    """The same content in pieces of exactly `size` bytes; the last one may be shorter."""
    pending = bytearray()
    async for piece in body:
        pending += piece
        while len(pending) >= size:
            yield bytes(pending[:size])
            del pending[:size]
    if pending:
        yield bytes(pending)
