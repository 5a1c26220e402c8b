"""Port-forward over plain WebSocket messages, as used by the official Python client and kr8s.

The request names the ports, which are connected at once. The port at index `i` has channel `2i` for
data and `2i + 1` for errors, each of which starts with the port number in two bytes.
"""

import asyncio
import contextlib

from kilonova.local.apimachinery.errors import ApiError
from kilonova.local.apiserver.streaming.byte_stream import READ_BYTES
from kilonova.local.apiserver.streaming.port_forward import PortForwardTarget
from kilonova.local.apiserver.streaming.websocket.connection import MessageStream

_QUEUE = 16


async def forward_port_channels(
    websocket: MessageStream, pod: PortForwardTarget, ports: list[int]
) -> None:
    """Serve the ports until the pod has closed all of them, or the client disconnects."""
    queues: list[asyncio.Queue[bytes]] = [asyncio.Queue(_QUEUE) for _ in ports]
    for index, port in enumerate(ports):
        for channel in (2 * index, 2 * index + 1):
            await websocket.send(bytes((channel,)) + port.to_bytes(2, "little"))
    reading = asyncio.create_task(_dispatch_messages(websocket, queues))
    forwards = [
        asyncio.create_task(_forward_port(websocket, pod, 2 * index, port, queues[index]))
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


async def _dispatch_messages(websocket: MessageStream, queues: list[asyncio.Queue[bytes]]) -> None:
    channel: int | None = None
    async for piece in websocket.pieces():
        data = piece.data
        if channel is None and data:
            channel, data = data[0], data[1:]
        if channel is not None and data and channel % 2 == 0 and channel // 2 < len(queues):
            await queues[channel // 2].put(data)
        if piece.last:
            channel = None


async def _forward_port(
    websocket: MessageStream,
    pod: PortForwardTarget,
    channel: int,
    port: int,
    queue: asyncio.Queue[bytes],
) -> None:
    with contextlib.suppress(OSError):
        try:
            reader, writer = await pod.dial(port)
        except (ApiError, OSError) as problem:
            text = pod.error_message(port, problem).encode()
            await websocket.send(bytes((channel + 1,)) + text)
            return
        sending = asyncio.create_task(_copy_to_pod(queue, writer))
        try:
            while data := await reader.read(READ_BYTES):
                await websocket.send(bytes((channel,)) + data)
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            writer.close()


async def _copy_to_pod(queue: asyncio.Queue[bytes], writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(await queue.get())
        await writer.drain()
