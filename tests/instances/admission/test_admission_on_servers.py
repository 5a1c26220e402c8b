"""The webhooks of instances, deployments and releases on both API servers, over TLS."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from kilonova.instances.admission import build_webhook_set
from kilonova.kube import ApiStatusError, Client, Invalid, Resource
from tests.conftest import Api
from tests.harness.webhook_server import running_webhook_set
from tests.instances.deployment.deployment_cluster import (
    DEPLOYMENTS,
    INSTANCES,
    RELEASES,
    deployment_body,
    template_of,
)
from tests.local.embedded_cluster import wait_for_condition


def running_webhooks(api: Api, folder: Path) -> AbstractAsyncContextManager[Client]:
    """A client of a server that calls the webhooks."""
    return running_webhook_set(api, folder, build_webhook_set(), wait_until_called)


async def wait_until_called(client: Client, namespace: str) -> None:
    """Wait until the API server has noticed both configurations."""

    async def are_called() -> bool:
        body = deployment_body()
        try:
            found = await client.create(DEPLOYMENTS, body, namespace, dry_run=True)
            if found["spec"].get("strategy", {}).get("maxUnavailable") != 1:
                return False
            body["metadata"]["name"] = "a" * 43
            await client.create(DEPLOYMENTS, body, namespace, dry_run=True)
        except ApiStatusError as error:
            return "denied the request" in error.message
        return False

    await wait_for_condition(are_called, within=20)


def body_of(name: str = "llama", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {**template_of("r1"), **spec}}


async def test_invalid_objects_are_rejected_with_field_value_and_fix(
    api: Api, tmp_path: Path
) -> None:
    async with running_webhooks(api, tmp_path) as client:

        async def failure_of(resource: Resource[Any], body: Any) -> str:
            with pytest.raises(ApiStatusError) as failed:
                await client.create(resource, body, api.namespace)
            return failed.value.message

        for kind in (INSTANCES, RELEASES):
            message = await failure_of(kind, body_of(allocation={"strategy": "tigthest"}))
            assert 'spec.allocation.strategy: Not found: "tigthest"' in message
            assert "use one of packed, spread, tightest" in message
        message = await failure_of(
            DEPLOYMENTS, deployment_body(template=template_of("r1", repair={"policy": "hope"}))
        )
        assert 'spec.template.repair.policy: Not found: "hope": use one of ladder' in message
        message = await failure_of(INSTANCES, body_of("a" * 49))
        assert "must be no more than 48 characters" in message
        message = await failure_of(INSTANCES, body_of(accelerator={"resource": "gpu"}))
        assert 'spec.accelerator.resource: Invalid value: "gpu"' in message
        message = await failure_of(DEPLOYMENTS, deployment_body(strategy={"maxUnavailable": 0}))
        assert "no instance could be replaced" in message
        # These are in the schema.
        with pytest.raises(Invalid, match=r"spec.targetAgents: Invalid value: 0"):
            await client.create(INSTANCES, body_of(targetAgents=0), api.namespace)
        body = deployment_body(strategy={"type": "Rolling"})
        with pytest.raises(Invalid, match=r'"RollingReplace", "Recreate"'):
            await client.create(DEPLOYMENTS, body, api.namespace)


async def test_defaults_are_seen_in_the_object_and_scale_needs_no_webhook(
    api: Api, tmp_path: Path
) -> None:
    async with running_webhooks(api, tmp_path) as client:
        found = await client.create(DEPLOYMENTS, deployment_body(), api.namespace)
        assert found["spec"]["strategy"] == {
            "type": "RollingReplace",
            "maxUnavailable": 1,
            "maxSurge": 0,
            "progressDeadline": "30m",
        }
        scale = await client.set_scale(DEPLOYMENTS, "llama", api.namespace, 7)
        assert scale.spec.replicas == 7
