"""The webhook of services, and the rules of their schema, on both API servers."""

from pathlib import Path
from typing import Any

import pytest

from kilonova.kube import ApiStatusError, Client, Invalid
from kilonova.serving.admission import build_webhook_set
from tests.conftest import Api
from tests.harness.webhook_server import running_webhook_set
from tests.local.embedded_cluster import wait_for_condition
from tests.serving.serving_cluster import INFERENCE_SERVICES, inference_service, server_group


async def wait_until_called(client: Client, namespace: str) -> None:
    """Wait until the API server has noticed the configuration."""

    async def is_called() -> bool:
        body = inference_service("web", server_group("gateway"))
        try:
            await client.create(INFERENCE_SERVICES, body, namespace, dry_run=True)
        except ApiStatusError as error:
            return "denied the request" in error.message
        return False

    await wait_for_condition(is_called, within=20)


async def test_invalid_services_are_rejected_with_field_value_and_fix(
    api: Api, tmp_path: Path
) -> None:
    hooks = build_webhook_set()
    async with running_webhook_set(api, tmp_path, hooks, wait_until_called) as client:

        async def failure_of(body: Any) -> str:
            with pytest.raises(ApiStatusError) as failed:
                await client.create(INFERENCE_SERVICES, body, api.namespace)
            return failed.value.message

        message = await failure_of(inference_service("web", {"name": "m"}))
        assert "spec.servers[0].image: Required value: set the image of the server" in message
        message = await failure_of(inference_service("web", gateway={"httpPort": 8002}))
        assert "spec.gateway.httpPort: Invalid value: 8002" in message
        # These are in the schema.
        route = {"backends": [{"server": "other"}]}
        with pytest.raises(Invalid, match="a route names a group that servers does not have"):
            await client.create(
                INFERENCE_SERVICES, inference_service("web", routes=[route]), api.namespace
            )
        body = inference_service("web", server_group(drain="-5s"))
        with pytest.raises(Invalid, match=r'spec.servers\[0\].drain: Invalid value: "-5s"'):
            await client.create(INFERENCE_SERVICES, body, api.namespace)
        found = await client.create(INFERENCE_SERVICES, inference_service(), api.namespace)
        assert found["spec"]["servers"][0]["protocol"] == "V2"
        await client.delete(INFERENCE_SERVICES, "web", api.namespace)
