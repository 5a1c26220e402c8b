"""Creates many pods concurrently, and measures time and CPU."""

import asyncio
import time
from dataclasses import dataclass

import uvloop

from bench.home.raw_http import Connection, encode_request, open_connections
from bench.home.servers import NAMESPACE, Server


@dataclass(frozen=True, slots=True)
class CreateRun:
    """Pods created in one run; CPU seconds of the server and of this process."""

    count: int
    seconds: float
    server_cpu: float
    client_cpu: float

    @property
    def per_second(self) -> float:
        return self.count / self.seconds


def create_pods(server: Server, body: bytes, count: int, connections: int) -> CreateRun:
    """Create `count` pods with the same body over `connections` connections.

    Each connection sends its next request when the last is answered. Timing starts when all
    connections are open.
    """
    message = encode_request("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", body)
    return uvloop.run(_create_pods(server, message, count, connections))


async def _create_pods(server: Server, message: bytes, count: int, width: int) -> CreateRun:
    remaining = iter(range(count))

    async def send_next(connection: Connection) -> None:
        for _ in remaining:
            await connection.send(message)

    async with open_connections(server.access, width) as opened:
        server_cpu, generator_cpu = server.cpu_seconds(), time.process_time()
        start = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for connection in opened:
                group.create_task(send_next(connection))
        return CreateRun(
            count,
            time.perf_counter() - start,
            server.cpu_seconds() - server_cpu,
            time.process_time() - generator_cpu,
        )
