"""Webhooks of an embedded cluster in this process: time, races, Services."""

import asyncio
import re
from base64 import b64encode
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kilonova.kube import ApiStatusError, Client
from kilonova.kube.admission import AdmissionServer, Allowed, Answer, FolderSource, Review
from kilonova.kube.resource import plain
from kilonova.local.admission.webhooks.services import Address, NoEndpoint, endpoints_of
from tests.local.admission.webhook_server import (
    WebhookServer,
    patched,
    review,
    serving,
    webhook,
)
from tests.local.embedded_cluster import CONFIG_MAPS, SERVICES, eventually, running

VALIDATING = plain(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    False,
)
MUTATING = plain(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    False,
)
SLICES = plain("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", True)


def configuration(*webhooks: Any) -> Any:
    return {"metadata": {"name": "w"}, "webhooks": list(webhooks)}


@pytest.mark.looptime
@pytest.mark.parametrize("failure", ["Fail", "Ignore"])
async def test_a_webhook_that_hangs_is_waited_for_as_long_as_it_may_take(failure: str) -> None:
    loop = asyncio.get_running_loop()
    # Since Python 3.13 a connection that nobody refers to is closed.
    held: list[asyncio.StreamWriter] = []
    silence = await asyncio.start_server(
        lambda _reader, writer: held.append(writer), "127.0.0.1", 0
    )
    server = WebhookServer(f"https://127.0.0.1:{silence.sockets[0].getsockname()[1]}", "", {})
    hook = webhook(server, "x", "/x", timeoutSeconds=30, failurePolicy=failure)
    async with running(controllers="") as cluster:
        client = cluster.client("me")
        await client.create(VALIDATING, configuration(hook))
        begin = loop.time()
        if failure == "Ignore":
            await client.create(CONFIG_MAPS, config_map(), "default")
        else:
            told = re.escape(f'Post "{server.url}/x?timeout=30s": context deadline exceeded')
            with pytest.raises(ApiStatusError, match=told):
                await client.create(CONFIG_MAPS, config_map(), "default")
        assert loop.time() - begin == pytest.approx(30, abs=1)
    assert held
    silence.close()
    for writer in held:
        writer.close()


async def test_a_write_that_was_overtaken_while_a_webhook_thought_is_done_again(
    tmp_path: Path,
) -> None:
    loop = asyncio.get_running_loop()
    overtaking: list[Callable[[], Awaitable[object]]] = []

    def overtaken(request: Any) -> Any:
        if overtaking:
            asyncio.run_coroutine_threadsafe(_await(overtaking.pop()), loop).result(10)
        return patched(request, {"op": "add", "path": "/data/seen", "value": "yes"})

    with serving(tmp_path / "tls", {"/x": overtaken}) as server:
        async with running(controllers="") as cluster:
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


async def test_two_of_the_same_name_wait_for_a_webhook_and_one_is_made(tmp_path: Path) -> None:
    with serving(tmp_path / "tls", {"/x": review}) as server:
        async with running(controllers="") as cluster:
            client = cluster.client("me")
            await client.create(VALIDATING, configuration(webhook(server, "x", "/x")))
            tries = [client.create(CONFIG_MAPS, config_map(), "default") for _ in range(5)]
            made = await asyncio.gather(*tries, return_exceptions=True)
    refused = [each for each in made if isinstance(each, ApiStatusError)]
    assert [each.code for each in refused] == [409] * 4


async def test_a_webhook_behind_a_service_is_found_by_its_ready_endpoints(tmp_path: Path) -> None:
    asked: list[str] = []

    async def allow(review: Review) -> Answer:
        asked.append(review.name)
        return Allowed()

    source = FolderSource(tmp_path, ["hook.default.svc"])
    server = AdmissionServer({"/check": allow}, source, host="127.64.7.7", port=0)
    port = server.bind()
    serving = asyncio.create_task(server.run())
    async with running(controllers="") as cluster:
        client = cluster.client("me")
        service = {
            "metadata": {"name": "hook"},
            "spec": {"ports": [{"port": 443, "name": "https"}]},
        }
        await client.create(SERVICES, service, "default")

        async def has_certificate() -> bool:
            return bool(server.ca_pem)

        await eventually(has_certificate)
        reference = {"name": "hook", "namespace": "default", "path": "/check"}
        client_config = {"service": reference, "caBundle": b64encode(server.ca_pem).decode()}
        hook = webhook(WebhookServer("", "", {}), "x", "", clientConfig=client_config)
        await client.create(VALIDATING, configuration(hook))
        url = "https://hook.default.svc:443/check?timeout=10s"
        with pytest.raises(ApiStatusError) as refusal:
            await client.create(CONFIG_MAPS, config_map(), "default")
        told = f'Post "{url}": no endpoints available for service "hook"'
        assert told in refusal.value.message
        await client.create(SLICES, endpoints("127.64.7.7", port), "default")
        await client.create(CONFIG_MAPS, config_map(), "default")
    assert asked == ["x"]
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
        ([endpoints("10.0.0.1", 8443)], 443, [Address("10.0.0.1", 8443)]),
        ([endpoints("10.0.0.1", 8443, ready=True)], 443, [Address("10.0.0.1", 8443)]),
        ([endpoints("10.0.0.1", 8443, ready=False)], 443, "no endpoints available for"),
        ([endpoints("10.0.0.1", 8443)], 80, "no endpoints available for service"),
        ([endpoints("10.0.0.1", 8443)], 9, "no service port 9 found for service"),
        ([], 443, 'no endpoints available for service "hook"'),
        (
            [endpoints("10.0.0.1", 1), endpoints("10.0.0.2", 2)],
            443,
            [Address("10.0.0.1", 1), Address("10.0.0.2", 2)],
        ),
    ],
)
def test_only_ready_endpoints_of_the_port_count(
    slices: list[Any], port: int, found: list[Address] | str
) -> None:
    if isinstance(found, str):
        with pytest.raises(NoEndpoint, match=found):
            endpoints_of(SERVICE, slices, port)
    else:
        assert endpoints_of(SERVICE, slices, port) == found


async def test_a_cluster_starts_though_nobody_answers(tmp_path: Path) -> None:
    nobody = WebhookServer("https://127.0.0.1:1", "", {})
    everything = webhook(nobody, "x", "/x")
    everything["rules"][0].update(apiGroups=["*"], apiVersions=["*"], resources=["*/*"])
    async with running(controllers="", data=tmp_path / "data") as cluster:
        await cluster.client("me").create(VALIDATING, configuration(everything))
    async with running(controllers="", data=tmp_path / "data") as cluster:
        with pytest.raises(ApiStatusError, match="connection refused"):
            await cluster.client("me").create(CONFIG_MAPS, config_map(), "default")


async def test_no_webhook_is_asked_once_its_configuration_is_gone(tmp_path: Path) -> None:
    with serving(tmp_path / "tls", {"/x": review}) as server:
        async with running(controllers="", data=tmp_path / "data") as cluster:
            client = cluster.client("me")
            await client.create(VALIDATING, configuration(webhook(server, "x", "/x")))
            await client.create(CONFIG_MAPS, config_map(), "default")
        async with running(controllers="", data=tmp_path / "data") as cluster:
            client = cluster.client("me")
            await client.delete(CONFIG_MAPS, "x", "default")
            operations = [request["operation"] for request in server.requests("/x")]
            assert operations == ["CREATE", "DELETE"]
            await client.delete(VALIDATING, "w")
            await client.create(CONFIG_MAPS, config_map(), "default")
        assert len(server.requests("/x")) == 2
