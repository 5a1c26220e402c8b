"""The default queue on both servers: users own its spec, the scheduler its status."""

from pathlib import Path
from typing import Any

import yaml

from kilonova.cli.install import install_definitions
from kilonova.scheduler.assembly import build_scheduler
from kilonova.scheduler.settings import SchedulerSettings
from tests.conftest import Api
from tests.harness.kubectl import Kubectl
from tests.local.embedded_cluster import wait_for_condition
from tests.scheduler.harness.embedded_scheduler import QUEUES
from tests.workloads.workload_cluster import run_runnables


async def test_users_can_change_and_delete_the_default_queue(
    api: Api, kubectl: Kubectl, tmp_path: Path
) -> None:
    async with api.client() as client:
        await install_definitions(client)
        scheduler = build_scheduler(client, SchedulerSettings(status_interval=0.2))

        async def read() -> dict[str, Any]:
            found = (await client.list(QUEUES)).items
            return next((each for each in found if each["metadata"]["name"] == "default"), {})

        async def is_observed() -> bool:
            queue = await read()
            generation = queue.get("metadata", {}).get("generation")
            return bool(queue) and queue.get("status", {}).get("observedGeneration") == generation

        async with run_runnables(scheduler.runnables, scheduler.leader_runnables):
            await wait_for_condition(is_observed)
            generation = (await read())["metadata"]["generation"]
            manifest = {
                "apiVersion": "scheduling.kilonova.dev/v1alpha1",
                "kind": "Queue",
                "metadata": {"name": "default"},
                "spec": {"weight": 3, "limit": {"nvidia.com/gpu": 2}},
            }
            file = tmp_path / "queue.yaml"
            file.write_text(yaml.safe_dump(manifest))
            applied = kubectl(["apply", "--server-side", "-f", str(file)])
            assert applied.code == 0, applied.err
            await wait_for_condition(is_observed)
            queue = await read()
            assert queue["spec"]["weight"] == 3
            assert queue["metadata"]["generation"] == generation + 1
            assert kubectl(["delete", "queue", "default"]).code == 0
            await wait_for_condition(is_observed)
            assert "limit" not in (await read()).get("spec", {})


async def test_amounts_that_become_empty_are_removed_from_the_status(api: Api) -> None:
    async with api.client() as client:
        await install_definitions(client)
        name = f"idle-{api.namespace}"
        await client.create(QUEUES, {"metadata": {"name": name}})
        gpus = {"nvidia.com/gpu": "8"}
        used = {"allocated": gpus, "requested": gpus, "fairShare": gpus}
        await client.apply(QUEUES, name, {"status": used}, subresource="status")
        scheduler = build_scheduler(client, SchedulerSettings(status_interval=0.2))
        status: dict[str, Any] = {}

        async def is_observed() -> bool:
            status.clear()
            status.update((await client.get(QUEUES, name)).get("status", {}))
            return bool(status.get("conditions"))

        async with run_runnables(scheduler.runnables, scheduler.leader_runnables):
            await wait_for_condition(is_observed)
        assert not any(status.get(each) for each in used), status
