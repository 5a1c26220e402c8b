"""Webhooks of an embedded cluster in this process: timeouts, races, Services."""

import asyncio
import re
from base64 import b64encode
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kilonova.kube import ApiStatusError, Client
from kilonova.kube.admission import (
    AdmissionRequest,
    AdmissionResponse,
    AdmissionServer,
    Allowed,
    FolderSource,
)
from kilonova.kube.client.resource import unstructured_resource
from kilonova.local.apiserver.admission.webhooks.service_resolver import (
    EndpointAddress,
    NoEndpointError,
    ready_endpoints,
)
from tests.local.apiserver.admission.webhooks.webhook_server import (
    WebhookServer,
    patched,
    review,
    serve_webhooks,
    webhook,
)
from tests.local.embedded_cluster import CONFIG_MAPS, SERVICES, run_cluster, wait_for_condition

VALIDATING = unstructured_resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    False,
)
MUTATING = unstructured_resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    False,
)
SLICES = unstructured_resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", True)


def configuration(*webhooks: Any) -> Any:
    return {"metadata": {"name": "w"}, "webhooks": list(webhooks)}


@pytest.mark.looptime
@pytest.mark.parametrize("failure", ["Fail", "Ignore"])
async def test_hanging_webhook_times_out(failure: str) -> None:
    loop = asyncio.get_running_loop()
    # Since Python 3.13 an unreferenced connection is closed.
    held: list[asyncio.StreamWriter] = []
    silence = await asyncio.start_server(
        lambda _reader, writer: held.append(writer), "127.0.0.1", 0
    )
    server = WebhookServer(f"https://127.0.0.1:{silence.sockets[0].getsockname()[1]}", "", {})
    hook = webhook(server, "x", "/x", timeoutSeconds=30, failurePolicy=failure)
    async with run_cluster(controllers="") as cluster:
        client = cluster.client("me")
        await client.create(VALIDATING, configuration(hook))
        begin = loop.time()
        if failure == "Ignore":
            await client.create(CONFIG_MAPS, config_map(), "default")
        else:
            reported = re.escape(f'Post "{server.url}/x?timeout=30s": context deadline exceeded')
            with pytest.raises(ApiStatusError, match=reported):
                await client.create(CONFIG_MAPS, config_map(), "default")
        assert loop.time() - begin == pytest.approx(30, abs=1)
    assert held
    silence.close()
    for writer in held:
        writer.close()


async def test_write_is_retried_after_a_concurrent_change(
    tmp_path: Path,
) -> None:
    loop = asyncio.get_running_loop()
    overtaking: list[Callable[[], Awaitable[object]]] = []

    def overtaken(request: Any) -> Any:
        if overtaking:
            asyncio.run_coroutine_threadsafe(_await(overtaking.pop()), loop).result(10)
        return patched(request, {"op": "add", "path": "/data/seen", "value": "yes"})

    with serve_webhooks(tmp_path / "tls", {"/x": overtaken}) as server:
        async with run_cluster(controllers="") as cluster:
            client = cluster.client("me")
            await client.create(CONFIG_MAPS, config_map(a="1"), "default")
            hook = webhook(server, "x", "/x")
            hook["rules"][0]["operations"] = ["UPDATE"]
            await client.create(MUTATING, configuration(hook))
            hasty = {"data": {"b": "2"}}
            overtaking.append(lambda: merged(client, hasty))
            made: Any = await merged(client, {"data": {"c": "3"}})
            assert made["data"] == {"a": "1", "b": "2", "c": "3", "seen": "yes"}
            assert len(server.requests("/x")) == 3

            overtaking.append(lambda: client.delete(CONFIG_MAPS, "x", "default"))
            with pytest.raises(ApiStatusError, match="not found"):
                await merged(client, {"data": {"d": "4"}})


def config_map(**data: str) -> Any:
    return {"metadata": {"name": "x"}, "data": data}


async def merged(client: Client, change: Any) -> Any:
    return await client.patch(CONFIG_MAPS, "x", change, "default")


async def _await(start: Callable[[], Awaitable[object]]) -> None:
    await start()


async def test_one_of_two_concurrent_creates_succeeds(tmp_path: Path) -> None:
    with serve_webhooks(tmp_path / "tls", {"/x": review}) as server:
        async with run_cluster(controllers="") as cluster:
            client = cluster.client("me")
            await client.create(VALIDATING, configuration(webhook(server, "x", "/x")))
            tries = [client.create(CONFIG_MAPS, config_map(), "default") for _ in range(5)]
            made = await asyncio.gather(*tries, return_exceptions=True)
    rejected = [each for each in made if isinstance(each, ApiStatusError)]
    assert [each.code for each in rejected] == [409] * 4


async def test_webhook_service_resolves_to_ready_endpoints(tmp_path: Path) -> None:
    requested: list[str] = []

    async def allow(review: AdmissionRequest) -> AdmissionResponse:
        requested.append(review.name)
        return Allowed()

    source = FolderSource(tmp_path, ["hook.default.svc"])
    server = AdmissionServer({"/check": allow}, source, host="127.64.7.7", port=0)
    port = server.bind()
    serving = asyncio.create_task(server.run())
    async with run_cluster(controllers="") as cluster:
        client = cluster.client("me")
        service = {
            "metadata": {"name": "hook"},
            "spec": {"ports": [{"port": 443, "name": "https"}]},
        }
        await client.create(SERVICES, service, "default")

        async def has_certificate() -> bool:
            return bool(server.ca_pem)

        await wait_for_condition(has_certificate)
        reference = {"name": "hook", "namespace": "default", "path": "/check"}
        client_config = {"service": reference, "caBundle": b64encode(server.ca_pem).decode()}
        hook = webhook(WebhookServer("", "", {}), "x", "", clientConfig=client_config)
        await client.create(VALIDATING, configuration(hook))
        url = "https://hook.default.svc:443/check?timeout=10s"
        with pytest.raises(ApiStatusError) as rejection:
            await client.create(CONFIG_MAPS, config_map(), "default")
        reported = f'Post "{url}": no endpoints available for service "hook"'
        assert reported in rejection.value.message
        await client.create(SLICES, endpoints("127.64.7.7", port), "default")
        await client.create(CONFIG_MAPS, config_map(), "default")
    assert requested == ["x"]
    server.stop()
    await serving


def endpoints(address: str, port: int, **conditions: bool) -> Any:
    return {
        "metadata": {"name": "hook-1", "labels": {"kubernetes.io/service-name": "hook"}},
        "addressType": "IPv4",
        "ports": [{"name": "https", "port": port}],
        "endpoints": [{"addresses": [address], "conditions": conditions}],
    }


SERVICE = {
    "metadata": {"name": "hook"},
    "spec": {"ports": [{"port": 443, "name": "https"}, {"port": 80, "name": "http"}]},
}


@pytest.mark.parametrize(
    ("slices", "port", "found"),
    [
        ([endpoints("10.0.0.1", 8443)], 443, [EndpointAddress("10.0.0.1", 8443)]),
        ([endpoints("10.0.0.1", 8443, ready=True)], 443, [EndpointAddress("10.0.0.1", 8443)]),
        ([endpoints("10.0.0.1", 8443, ready=False)], 443, "no endpoints available for"),
        ([endpoints("10.0.0.1", 8443)], 80, "no endpoints available for service"),
        ([endpoints("10.0.0.1", 8443)], 9, "no service port 9 found for service"),
        ([], 443, 'no endpoints available for service "hook"'),
        (
            [endpoints("10.0.0.1", 1), endpoints("10.0.0.2", 2)],
            443,
            [EndpointAddress("10.0.0.1", 1), EndpointAddress("10.0.0.2", 2)],
        ),
    ],
)
def test_only_ready_endpoints_of_the_port_are_used(
    slices: list[Any], port: int, found: list[EndpointAddress] | str
) -> None:
    if isinstance(found, str):
        with pytest.raises(NoEndpointError, match=found):
            ready_endpoints(SERVICE, slices, port)
    else:
        assert ready_endpoints(SERVICE, slices, port) == found


async def test_cluster_starts_while_webhooks_are_down(tmp_path: Path) -> None:
    nobody = WebhookServer("https://127.0.0.1:1", "", {})
    everything = webhook(nobody, "x", "/x")
    everything["rules"][0].update(apiGroups=["*"], apiVersions=["*"], resources=["*/*"])
    async with run_cluster(controllers="", data=tmp_path / "data") as cluster:
        await cluster.client("me").create(VALIDATING, configuration(everything))
    async with run_cluster(controllers="", data=tmp_path / "data") as cluster:
        with pytest.raises(ApiStatusError, match="connection refused"):
            await cluster.client("me").create(CONFIG_MAPS, config_map(), "default")


async def test_webhook_of_a_deleted_configuration_is_not_called(tmp_path: Path) -> None:
    with serve_webhooks(tmp_path / "tls", {"/x": review}) as server:
        async with run_cluster(controllers="", data=tmp_path / "data") as cluster:
            client = cluster.client("me")
            await client.create(VALIDATING, configuration(webhook(server, "x", "/x")))
            await client.create(CONFIG_MAPS, config_map(), "default")
        async with run_cluster(controllers="", data=tmp_path / "data") as cluster:
            client = cluster.client("me")
            await client.delete(CONFIG_MAPS, "x", "default")
            operations = [request["operation"] for request in server.requests("/x")]
            assert operations == ["CREATE", "DELETE"]
            await client.delete(VALIDATING, "w")
            await client.create(CONFIG_MAPS, config_map(), "default")
        assert len(server.requests("/x")) == 2
