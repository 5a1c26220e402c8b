"""Our admission server, called by a genuine kube-apiserver and by the embedded API server."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kilonova.kube import ApiStatusError, Client, unstructured_resource
from kilonova.kube.admission import (
    AdmissionRequest,
    AdmissionResponse,
    AdmissionServer,
    Allowed,
    FieldError,
    FolderSource,
    Mutated,
    SecretSource,
    deny_invalid,
    ensure_ca_bundle,
)
from kilonova.kube.admission.ca_bundle import WEBHOOK_CONFIGURATIONS
from tests.conftest import Api

CONFIGMAPS = unstructured_resource("", "v1", "configmaps", "ConfigMap", True)


@pytest.fixture
async def client(api: Api) -> AsyncGenerator[Client]:
    async with api.client() as client:
        yield client


async def stamp(review: AdmissionRequest) -> AdmissionResponse:
    assert review.object is not None
    data: dict[str, str] = review.object.setdefault("data", {})
    data["by"] = review.user_info.username
    data["dryRun"] = str(bool(review.dry_run)).lower()
    return Mutated(review.object)


async def check(review: AdmissionRequest) -> AdmissionResponse:
    data = (review.object or {}).get("data", {})
    if data.get("size") == "huge":
        return deny_invalid(FieldError("data.size", "must not be huge"))
    if data.get("size") == "crash":
        raise RuntimeError("boom")
    return Allowed(warnings=("sizes are checked",))


def configuration(name: str, url: str, namespace: str) -> dict[str, Any]:
    webhook = {
        "name": f"{name}.kilonova.test",
        "clientConfig": {"url": url},
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["configmaps"],
            }
        ],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "timeoutSeconds": 5,
    }
    return {"metadata": {"name": name}, "webhooks": [webhook]}


async def test_api_server_calls_the_webhook_and_enforces_its_response(
    api: Api, client: Client
) -> None:
    name = api.namespace
    source = SecretSource(client, "webhook-tls", name, ["127.0.0.1"])
    trusted = asyncio.Event()

    async def publish(ca_pem: bytes) -> None:
        if await ensure_ca_bundle(client, name, ca_pem):
            trusted.set()

    server = AdmissionServer(
        {"/stamp": stamp, "/check": check}, source, host="127.0.0.1", port=0, publish=publish
    )
    url = f"https://127.0.0.1:{server.bind()}"
    paths = {"mutatingwebhookconfigurations": "stamp", "validatingwebhookconfigurations": "check"}
    for resource in WEBHOOK_CONFIGURATIONS:
        body = configuration(name, f"{url}/{paths[resource.plural]}", name)
        await client.create(resource, body)
    running = asyncio.create_task(server.run())
    try:
        await asyncio.wait_for(trusted.wait(), 10)
        stamped = await _create_until_mutated(client, name)
        assert stamped["data"]["by"]
        assert stamped["data"]["dryRun"] == "false"
        with pytest.raises(ApiStatusError) as rejection:
            await client.create(CONFIGMAPS, config_map("x", size="huge"), name)
        assert rejection.value.code == 422
        assert rejection.value.causes[0]["field"] == "data.size"
        assert "denied the request: data.size: must not be huge" in rejection.value.message
        with pytest.raises(ApiStatusError, match="/check failed: RuntimeError") as rejection:
            await client.create(CONFIGMAPS, config_map("x", size="crash"), name)
        assert rejection.value.code == 500
        dry = await client.create(CONFIGMAPS, config_map("dry"), name, dry_run=True)
        assert dry["data"]["dryRun"] == "true"
    finally:
        for resource in WEBHOOK_CONFIGURATIONS:
            await client.delete(resource, name)
        server.stop()
        await running


async def _create_until_mutated(client: Client, namespace: str) -> dict[str, Any]:
    """Create objects until the API server has observed its new configuration."""
    async with asyncio.timeout(20):
        for number in range(1000):
            try:
                made = await client.create(CONFIGMAPS, config_map(f"x-{number}"), namespace)
            except ApiStatusError as error:
                # It may still have the configuration without our CA.
                if "failed calling webhook" not in error.message:
                    raise
                made = {}
            if "data" in made:
                return made
            await asyncio.sleep(0.05)
    raise AssertionError("unreachable")


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}} | ({"data": data} if data else {})


async def test_ca_bundle_is_set_in_both_kinds_of_configuration(
    client: Client, tmp_path: Path
) -> None:
    ca = (await FolderSource(tmp_path, ["127.0.0.1"]).current(datetime.now(UTC))).ca_pem
    name = "bundled"
    try:
        for resource in WEBHOOK_CONFIGURATIONS:
            await client.create(resource, configuration(name, "https://127.0.0.1:1/x", "none"))
        assert await ensure_ca_bundle(client, name, ca)
        versions = [await _version(client, resource, name) for resource in WEBHOOK_CONFIGURATIONS]
        assert await ensure_ca_bundle(client, name, ca)
        assert versions == [
            await _version(client, resource, name) for resource in WEBHOOK_CONFIGURATIONS
        ]
    finally:
        for resource in WEBHOOK_CONFIGURATIONS:
            await client.delete(resource, name)


async def _version(client: Client, resource: Any, name: str) -> str:
    found = await client.get(resource, name)
    (webhook,) = found["webhooks"]
    assert webhook["clientConfig"]["caBundle"]
    assert webhook["rules"], "the rest of the webhook is as it was"
    return found["metadata"]["resourceVersion"]
