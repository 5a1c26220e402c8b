"""Minimal pods: Python scripts under the filter, with a network in the test's event loop."""

import asyncio
import os
import socket
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from kilonova.local.processnode.network import PodNetwork, install_filter

TIMEOUT = 30.0
_numbers = count(os.getpid() % 2**12 * 2**8)


def new_address() -> str:
    """A pod's address that this machine's other tests do not use."""
    number = next(_numbers) % 2**20
    return f"127.{64 + number // 65536}.{number // 256 % 256}.{number % 256}"


@dataclass
class NetworkPods:
    """Starts processes in pods, and ends those that are left."""

    network: PodNetwork
    processes: list[asyncio.subprocess.Process] = field(
        default_factory=list[asyncio.subprocess.Process]
    )

    async def start(
        self, address: str, command: Sequence[str], **options: Any
    ) -> asyncio.subprocess.Process:
        """Execute a command under the filter, as a container of the pod with that address."""
        ours, theirs = socket.socketpair()
        with ours, theirs:

            def before_exec() -> None:
                socket.send_fds(theirs, [b"."], [install_filter()])

            process = await asyncio.create_subprocess_exec(
                *command,
                preexec_fn=before_exec,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                **options,
            )
            _, fds, _, _ = socket.recv_fds(ours, 1, 1)
        self.network.add_listener(fds[0], address)
        self.processes.append(process)
        return process

    async def serve(self, address: str, script: str, *arguments: Any) -> asyncio.subprocess.Process:
        """Run a script, and wait for its first line."""
        process = await self.start(address, python(script, *arguments))
        assert (await line(process)) == "ready"
        return process

    async def run(self, address: str, script: str, *arguments: Any, **options: Any) -> str:
        """Run a script to its end; returns what it printed."""
        process = await self.start(address, python(script, *arguments), **options)
        async with asyncio.timeout(TIMEOUT):
            output, _ = await process.communicate()
        assert process.returncode == 0, output.decode()
        return output.decode().strip()


def python(script: str, *arguments: Any) -> list[str]:
    return [sys.executable, "-c", PRELUDE + script, *map(str, arguments)]


async def line(process: asyncio.subprocess.Process) -> str:
    """The next line that a process prints."""
    assert process.stdout is not None
    async with asyncio.timeout(TIMEOUT):
        return (await process.stdout.readline()).decode().strip()


@asynccontextmanager
async def pods() -> AsyncGenerator[NetworkPods]:
    """A network with no pods yet."""
    network = PodNetwork()
    made = NetworkPods(network)
    try:
        yield made
    finally:
        for process in made.processes:
            if process.returncode is None:
                process.kill()
            await process.communicate()
        network.close()


def route(ip: str, port: int, *backends: tuple[str, int], protocol: str = "TCP") -> dict[str, Any]:
    return {"address": ip, "port": port, "protocol": protocol, "backends": list(backends)}


PRELUDE = """
import socket, sys, threading
def call(ip, port, family=socket.AF_INET):
    with socket.socket(family) as client:
        client.settimeout(10)
        client.connect((ip, port))
        return client.recv(100).decode()
"""

SERVER = """
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
server = socket.socket(family)
server.bind((sys.argv[1], int(sys.argv[2])))
server.listen()
print("ready", flush=True)
while True:
    client, peer = server.accept()
    with client:
        client.sendall(f"{sys.argv[3]} {peer[0].removeprefix('::ffff:')}".encode())
"""
"""Answers with its name and the address of the client."""
