"""`kilonova up` without simulated nodes, on a new data directory, and its commands."""

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from kilonova.kube import Client, connect

COMMAND_SECONDS = 600


@dataclass(frozen=True, slots=True)
class LocalCluster:
    """A running cluster whose only node is this machine."""

    data: Path
    client: Client

    async def run(self, *arguments: str) -> str:
        """Run a command of `kilonova` on the cluster; its output."""
        return await _kilonova(*arguments, "--data", str(self.data))


@asynccontextmanager
async def start_cluster() -> AsyncGenerator[LocalCluster]:
    """A cluster that stops at the end."""
    with tempfile.TemporaryDirectory() as folder:
        at = ("--data", folder)
        start = ("up", "--detach", "--wait", "--no-demo", "--no-console", "--port", "0")
        await _kilonova(*start, *at)
        try:
            client = connect(Path(folder) / "kubeconfig")
            try:
                yield LocalCluster(Path(folder), client)
            finally:
                await client.close()
        finally:
            await _kilonova("down", *at)


async def _kilonova(*arguments: str) -> str:
    env = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
    result = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "kilonova.cli", *arguments],
        check=True,
        timeout=COMMAND_SECONDS,
        stdout=subprocess.PIPE,
        text=True,
        env=env,
    )
    return result.stdout
