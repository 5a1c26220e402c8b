"""Port-forward over plain WebSocket messages, as the official Python client and kr8s have it.

The ports are named in the request, and are connected at once. Port `i` of them has channel `2i`
for data and `2i + 1` for errors, each of which begins with the port's number in two bytes.
"""

import asyncio
import contextlib

from kilonova.local.errors import ApiError
from kilonova.local.streaming.forwarding import ForwardedPod
from kilonova.local.streaming.websocket import Messages
from kilonova.local.streaming.wire import READ_BYTES

_QUEUE = 16


async def forward_channels(websocket: Messages, pod: ForwardedPod, ports: list[int]) -> None:
    """Serve the ports until the pod has closed all of them, or the client has gone."""
    queues: list[asyncio.Queue[bytes]] = [asyncio.Queue(_QUEUE) for _ in ports]
    for index, port in enumerate(ports):
        for channel in (2 * index, 2 * index + 1):
            await websocket.send(bytes((channel,)) + port.to_bytes(2, "little"))
    reading = asyncio.create_task(_read(websocket, queues))
    forwards = [
        asyncio.create_task(_forward(websocket, pod, 2 * index, port, queues[index]))
        for index, port in enumerate(ports)
    ]
    everything = asyncio.gather(*forwards)
    try:
        await asyncio.wait((reading, everything), return_when=asyncio.FIRST_COMPLETED)
        if reading.done():
            reading.result()
        await websocket.close()
    finally:
        reading.cancel()
        everything.cancel()
        await asyncio.gather(reading, everything, return_exceptions=True)


async def _read(websocket: Messages, queues: list[asyncio.Queue[bytes]]) -> None:
    channel: int | None = None
    async for piece in websocket.pieces():
        data = piece.data
        if channel is None and data:
            channel, data = data[0], data[1:]
        if channel is not None and data and channel % 2 == 0 and channel // 2 < len(queues):
            await queues[channel // 2].put(data)
        if piece.last:
            channel = None


async def _forward(
    websocket: Messages, pod: ForwardedPod, channel: int, port: int, queue: asyncio.Queue[bytes]
) -> None:
    with contextlib.suppress(OSError):
        try:
            reader, writer = await pod.dial(port)
        except (ApiError, OSError) as problem:
            text = pod.complaint(port, problem).encode()
            await websocket.send(bytes((channel + 1,)) + text)
            return
        sending = asyncio.create_task(_send(queue, writer))
        try:
            while data := await reader.read(READ_BYTES):
                await websocket.send(bytes((channel,)) + data)
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            writer.close()


async def _send(queue: asyncio.Queue[bytes], writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(await queue.get())
        await writer.drain()
