"""The webhooks of GPU objects on both API servers, over TLS."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from kilonova.gpu.admission import build_webhook_set
from kilonova.kube import ApiStatusError, Client, Invalid
from tests.api.manifests import value_at
from tests.conftest import Api
from tests.gpu.controllers.manifests import workload
from tests.gpu.controllers.workload_cluster import STRATEGIES, WORKLOADS
from tests.harness.webhook_server import running_webhook_set
from tests.local.embedded_cluster import wait_for_condition

GPUS = "spec.gpuRequirements"


def running_webhooks(api: Api, folder: Path) -> AbstractAsyncContextManager[Client]:
    """A client of a server that calls the webhooks."""
    return running_webhook_set(api, folder, build_webhook_set(), _wait_until_called)


def own(api: Api, **changes: Any) -> Any:
    return workload(changes={"metadata.namespace": api.namespace, **changes})


async def _wait_until_called(client: Client, namespace: str) -> None:
    """Wait until the API server has noticed both configurations."""

    async def create(profile: str) -> Any:
        changes = {"metadata.namespace": namespace, f"{GPUS}.mig": {"profile": profile}}
        body = workload(gpus=1, changes=changes)
        return await client.create(WORKLOADS, body, namespace, dry_run=True)

    async def are_called() -> bool:
        found = await create("1g.10gb")
        try:
            await create("9g.999gb")
        except ApiStatusError as error:
            return "denied the request" in error.message and "count" in value_at(
                found, f"{GPUS}.mig"
            )
        return False

    await wait_for_condition(are_called, within=20)


async def test_workloads_are_defaulted_and_validated(api: Api, tmp_path: Path) -> None:
    async with running_webhooks(api, tmp_path / "certificates") as client:
        mig = {f"{GPUS}.mig": {"profile": "1g.10gb"}, f"{GPUS}.count": 2}
        created = await client.create(WORKLOADS, own(api, **mig), api.namespace)
        assert value_at(created, f"{GPUS}.mig.count") == 2
        await client.delete(WORKLOADS, "job", api.namespace)

        unequal = own(api, **{"spec.distributedConfig": {"worldSize": 3}})
        with pytest.raises(Invalid) as error:
            await client.create(WORKLOADS, unequal, api.namespace)
        assert "spec.distributedConfig.worldSize" in error.value.message
        assert "use a divisor of 8" in error.value.message


async def test_placed_workload_is_not_changed(api: Api, tmp_path: Path) -> None:
    async with running_webhooks(api, tmp_path / "certificates") as client:
        await client.create(WORKLOADS, own(api), api.namespace)
        running = {"status": {"phase": "Running"}}
        await client.patch(WORKLOADS, "job", running, api.namespace, subresource="status")
        with pytest.raises(Invalid) as error:
            await client.patch(WORKLOADS, "job", {"spec": {"priority": 3}}, api.namespace)
        assert "spec.priority: Forbidden: must not be changed in phase Running" in (
            error.value.message
        )
        await client.patch(WORKLOADS, "job", {"spec": {"preemptible": True}}, api.namespace)
        await client.delete(WORKLOADS, "job", api.namespace)


async def test_strategy_with_an_unknown_profile_is_rejected(api: Api, tmp_path: Path) -> None:
    async with running_webhooks(api, tmp_path / "certificates") as client:
        spec = {"profileDistribution": {"1g.11gb": 0.5}}
        body = {"metadata": {"name": f"of-{api.namespace}"}, "spec": spec}
        with pytest.raises(Invalid) as error:
            await client.create(STRATEGIES, body)
        assert "of that size there are 1g.10gb" in error.value.message
