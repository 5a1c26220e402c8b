"""Creating many pods fast, and what it took."""

import asyncio
import time
from dataclasses import dataclass

import uvloop

from bench.home.servers import NAMESPACE, Server
from bench.home.wire import Connection, connections, request


@dataclass(frozen=True, slots=True)
class Burst:
    """Pods created in one go; processor seconds of the server and of this process."""

    count: int
    seconds: float
    server_cpu: float
    generator_cpu: float

    @property
    def per_second(self) -> float:
        return self.count / self.seconds


def create_pods(server: Server, body: bytes, count: int, width: int) -> Burst:
    """Create `count` pods, all of one body, over `width` connections.

    Each connection sends its next request when the last is answered. Time is taken when all
    connections are open.
    """
    message = request("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", body)
    return uvloop.run(_create(server, message, count, width))


async def _create(server: Server, message: bytes, count: int, width: int) -> Burst:
    remaining = iter(range(count))

    async def send_next(connection: Connection) -> None:
        for _ in remaining:
            await connection.ask(message)

    async with connections(server.access, width) as opened:
        server_cpu, generator_cpu = server.cpu_seconds(), time.process_time()
        began = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for connection in opened:
                group.create_task(send_next(connection))
        return Burst(
            count,
            time.perf_counter() - began,
            server.cpu_seconds() - server_cpu,
            time.process_time() - generator_cpu,
        )
