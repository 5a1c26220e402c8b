"""`kilonova supernova` as a process, on both servers."""

import asyncio
import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kilonova.api.times import format_micro_time
from kilonova.cli.install import install_definitions
from tests.cli.command import Kilonova
from tests.conftest import Api
from tests.harness.server_process import ServerProcess
from tests.instances.deployment.deployment_cluster import (
    DEPLOYMENTS,
    INSTANCES,
    deployment_body,
)
from tests.local.embedded_cluster import LEASES, wait_for_condition

_SOURCE = Path(__file__).parents[3] / "src"


@pytest.fixture
def supernova(api: Api, tmp_path: Path) -> Iterator[ServerProcess]:
    """The process; its leader election is in the namespace of the test."""
    command = [sys.executable, "-P", "-m", "kilonova.cli", "supernova", "--health-port", "0"]
    command += ["--kubeconfig", str(api.access.kubeconfig), "--namespace", api.namespace]
    path = os.pathsep.join(filter(None, [str(_SOURCE), os.environ.get("PYTHONPATH")]))
    process = ServerProcess(
        "supernova", command, tmp_path / "supernova.log", {**os.environ, "PYTHONPATH": path}
    )
    yield process
    process.stop(grace=20)


@pytest.fixture
async def installed(api: Api) -> None:
    """The CRDs."""
    async with api.client() as client:
        await install_definitions(client)


@pytest.mark.usefixtures("installed", "supernova")
async def test_process_makes_instances_and_what_they_become(api: Api) -> None:
    async with api.client() as client:
        await client.create(DEPLOYMENTS, deployment_body(replicas=2), api.namespace)

        async def are_allocating() -> bool:
            found = (await client.list(INSTANCES, api.namespace)).items
            phases = [each.get("status", {}).get("phase") for each in found]
            return phases == ["Allocating"] * 2

        await wait_for_condition(are_allocating, within=40)
        await client.delete(DEPLOYMENTS, "llama", api.namespace)


@pytest.mark.usefixtures("installed")
async def test_process_does_not_start_beside_an_operator(api: Api, tmp_path: Path) -> None:
    where = ("--kubeconfig", api.access.kubeconfig, "--namespace", api.namespace)
    now = format_micro_time(datetime.now(UTC))
    spec: dict[str, Any] = {
        "holderIdentity": "operator-7",
        "leaseDurationSeconds": 600,
        "acquireTime": now,
        "renewTime": now,
    }
    async with api.client() as client:
        body = {"metadata": {"name": "kilonova-operator"}, "spec": spec}
        await client.create(LEASES, body, api.namespace)
        done = await asyncio.to_thread(
            Kilonova(tmp_path), "supernova", "--health-port", "0", *where
        )
    assert done.code == 1
    assert done.err.strip() == (
        "kilonova: the operator runs these controllers already: operator-7 holds the Lease "
        f"{api.namespace}/kilonova-operator; stop it, or leave the controllers to it"
    )
