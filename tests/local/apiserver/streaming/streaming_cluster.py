"""The environment of streaming tests: a cluster, its node, running pods, and clients."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kilonova.local.cluster import EmbeddedCluster
from tests.harness.access import ServerAccess
from tests.harness.kubectl import Kubectl, find_kubectl
from tests.local.apiserver.streaming.local_kubelet import LocalMachineKubelet
from tests.local.embedded_cluster import PODS

NODE = "this-machine"


@dataclass
class CommandResult:
    """The result of a command."""

    code: int
    out: bytes
    err: bytes


@dataclass
class Answer:
    """The server's response; header names may repeat."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def header(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key == name]


@dataclass
class StreamingCluster:
    """Pod names are unique per test; their container is `main` by default."""

    cluster: EmbeddedCluster
    folder: Path
    machine: LocalMachineKubelet = field(default_factory=LocalMachineKubelet)
    clients: list[asyncio.subprocess.Process] = field(
        default_factory=list[asyncio.subprocess.Process]
    )

    def __post_init__(self) -> None:
        self.cluster.kubelets.register(NODE, self.machine)
        self.client = self.cluster.client("tester")

    @property
    def access(self) -> ServerAccess:
        return ServerAccess.from_kubeconfig(
            self.folder / "data" / "kubeconfig", self.folder / "admin"
        )

    async def pod(
        self,
        name: str,
        *,
        containers: tuple[str, ...] = ("main",),
        state: str = "running",
        node: str = NODE,
        **container: Any,
    ) -> None:
        """A pod whose containers run, or have another state."""
        spec: Any = {
            "nodeName": node,
            "containers": [{"name": each, "image": "img", **container} for each in containers],
        }
        await self.client.create(PODS, {"metadata": {"name": name}, "spec": spec}, "default")
        statuses = [
            {
                "name": each,
                "image": "img",
                "imageID": "",
                "ready": True,
                "restartCount": 0,
                "state": {state: {}},
            }
            for each in containers
        ]
        status = {"phase": "Running", "containerStatuses": statuses}
        await self.client.patch(PODS, name, {"status": status}, "default", subresource="status")

    async def raw(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> "Answer":
        """One request on a socket, as the administrator."""
        reader, writer = await self.dial()
        lines = [f"{method} {path} HTTP/1.1", "Host: cluster.example"]
        provided = {"Connection": "close", **(headers or {})}
        if body:
            provided["Content-Length"] = str(len(body))
        lines += [f"{name}: {value}" for name, value in provided.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        async with asyncio.timeout(30):
            head = await reader.readuntil(b"\r\n\r\n")
            rest = await reader.read()
        writer.close()
        first, *others = head.decode().rstrip().split("\r\n")
        pairs = [line.partition(": ")[::2] for line in others]
        return Answer(int(first.split()[1]), [(name.lower(), value) for name, value in pairs], rest)

    async def dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection as the administrator."""
        access = self.access
        return await asyncio.open_connection(
            "127.0.0.1", access.port, ssl=access.ssl_context(), server_hostname="localhost"
        )

    @property
    def kubectl(self) -> Kubectl:
        binary = find_kubectl()
        assert binary is not None, "tests that run kubectl use the fixture kubectl_path"
        return Kubectl(binary, self.folder / "data" / "kubeconfig", self.folder)

    async def start(self, *message: str, env: dict[str, str] | None = None, **streams: Any) -> Any:
        """Start kubectl; its streams are pipes by default."""
        kubectl, pipe = self.kubectl, asyncio.subprocess.PIPE
        streams = {"stdin": pipe, "stdout": pipe, "stderr": pipe, **streams}
        process = await asyncio.create_subprocess_exec(
            *kubectl.build_prefix(),
            *message,
            cwd=self.folder,
            env=kubectl.build_environment(env),
            start_new_session=True,
            **streams,
        )
        self.clients.append(process)
        return process

    async def run(
        self, *message: str, stdin: bytes = b"", env: dict[str, str] | None = None
    ) -> CommandResult:
        """Run kubectl to its end."""
        process = await self.start(*message, env=env)
        async with asyncio.timeout(60):
            out, err = await process.communicate(stdin)
        return CommandResult(process.returncode, out, err)

    @asynccontextmanager
    async def forwarded(
        self, *message: str, env: dict[str, str] | None = None
    ) -> AsyncGenerator[int]:
        """A port of this machine that `kubectl port-forward` has opened."""
        process = await self.start("port-forward", *message, env=env)
        async with asyncio.timeout(30):
            line = await process.stdout.readline()
        assert line.startswith(b"Forwarding from 127.0.0.1:"), (line, await _read_rest(process))
        try:
            yield int(line.split(b":")[1].split()[0])
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()

    async def stop(self) -> None:
        for process in self.clients:
            if process.returncode is None:
                process.kill()
            await process.wait()
        await self.machine.stop()


async def _read_rest(process: Any) -> bytes:
    process.terminate()
    return await process.stderr.read()
