"""An engine in processes of their own, on loopback ports."""

import http.client
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.harness.server_process import ServerProcess, find_free_port

_SOURCE = Path(__file__).parents[3] / "src"


@dataclass
class EngineProcesses:
    """A conductor and its agents; all are stopped with the test."""

    folder: Path
    agents: int = 3
    model: str = "tiny"
    heartbeat: float = 10.0
    """Long, so that a busy machine loses no agent."""
    port: int = field(default_factory=find_free_port)
    join_port: int = field(default_factory=find_free_port)
    started: list[ServerProcess] = field(default_factory=list[ServerProcess])

    def start_conductor(self) -> ServerProcess:
        """Start the conductor; it is not ready before its agents have joined."""
        variables = {"ENGINE_PORT": str(self.port), "ENGINE_JOIN_PORT": str(self.join_port)}
        process = self._start("conductor", ["kilonova.cli", "engine", "conductor"], variables)
        process.wait_until(lambda: self.get_status("/health/live") == 200)
        return process

    def start_agent(self, index: int, *words: str) -> ServerProcess:
        """Start an agent on a port of its own; words are further flags."""
        variables = {
            "ENGINE_AGENT_INDEX": str(index),
            "ENGINE_CONDUCTOR": f"127.0.0.1:{self.join_port}",
            "ENGINE_PORT": "0",
        }
        command = ["kilonova.cli", "engine", "agent", *words]
        return self._start(f"agent-{index}", command, variables)

    def start_role(self, role: str, variables: dict[str, str], *words: str) -> ServerProcess:
        """Start what a pod of an instance runs, by its variables, and its arguments if any."""
        command = ["kilonova.instances.engine", *words]
        return self._start(role, command, {"ENGINE_ROLE": role, **variables})

    def start_all(self) -> list[ServerProcess]:
        """Start everything and wait until it is ready; the agents by index."""
        agents = [self.start_agent(index) for index in range(self.agents)]
        self.start_conductor()
        self.wait_until_ready()
        return agents

    def wait_until_ready(self) -> None:
        """Wait until all agents have joined."""
        self.wait_until(lambda: self.get_status("/health/ready") == 200)

    def wait_until_missing(self, *indices: int) -> None:
        """Wait until the conductor misses just these agents."""
        self.wait_until(lambda: self.get("/health/ready")[1].get("missing") == list(indices))

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        self.started[0].wait_until(is_so)

    def get_status(self, path: str) -> int:
        """The status of a path; 0 if the conductor does not listen."""
        return self.get(path)[0]

    def get(self, path: str) -> tuple[int, dict[str, Any]]:
        """Status and JSON of a path; 0 if the conductor does not listen."""
        try:
            return request(self.port, "GET", path)
        except OSError:
            return 0, {}

    def complete(self, prompt: str, **fields: object) -> tuple[int, dict[str, Any]]:
        """A completion."""
        body = {"model": self.model, "prompt": prompt, **fields}
        return request(self.port, "POST", "/v1/completions", body)

    def stop_all(self) -> None:
        for process in self.started:
            process.kill()

    def _start(self, name: str, command: list[str], variables: dict[str, str]) -> ServerProcess:
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(_SOURCE),
            "ENGINE_MODEL": self.model,
            "ENGINE_AGENTS": str(self.agents),
            "ENGINE_HOST": "127.0.0.1",
            "ENGINE_HEARTBEAT": str(self.heartbeat),
            **variables,
        }
        log = self.folder / f"{name}-{len(self.started)}.log"
        process = ServerProcess(name, [sys.executable, "-P", "-m", *command], log, environment)
        self.started.append(process)
        return process


def request(
    port: int, method: str, path: str, body: object = None, *, host: str = "127.0.0.1"
) -> tuple[int, dict[str, Any]]:
    """Status and JSON of the answer."""
    connection = http.client.HTTPConnection(host, port, timeout=30)
    try:
        connection.request(method, path, None if body is None else json.dumps(body))
        reply = connection.getresponse()
        return reply.status, json.loads(reply.read())
    finally:
        connection.close()
