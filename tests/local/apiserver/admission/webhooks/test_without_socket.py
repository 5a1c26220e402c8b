"""Review handlers that an embedded cluster calls in its own process."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from kilonova.kube import ApiStatusError, Client
from kilonova.kube.admission import (
    AdmissionRequest,
    AdmissionResponse,
    Allowed,
    Denied,
    FieldError,
    Handler,
    Mutated,
    deny_invalid,
)
from kilonova.kube.admission.in_process import InProcessWebhook
from kilonova.kube.client.transport import Request
from kilonova.local.cluster import ClusterSettings, EmbeddedCluster
from tests.local.apiserver.admission.webhooks.webhook_cluster import EVE, cluster_with_webhooks
from tests.local.embedded_cluster import CONFIG_MAPS, SECRETS, LoopClock


def record_calls(handler: Handler, *operations: Any, mutating: bool = False) -> InProcessWebhook:
    return InProcessWebhook(
        "hook.example.com", handler, "", "configmaps", operations or ("CREATE",), mutating
    )


def config_map(**data: str) -> dict[str, Any]:
    return {"metadata": {"name": "m"}, "data": data}


async def stamp(review: AdmissionRequest) -> AdmissionResponse:
    assert review.object is not None
    review.object.setdefault("data", {})["by"] = review.user_info.username
    review.object["metadata"].pop("managedFields", None)
    return Mutated(review.object, warnings=("stamped",))


async def see_stamp(review: AdmissionRequest) -> AdmissionResponse:
    by = (review.object or {}).get("data", {}).get("by", "nobody")
    if by != "me":
        return deny_invalid(FieldError("data.by", f'Invalid value: "{by}": must be me'))
    return Allowed()


async def test_object_is_mutated_then_validated() -> None:
    async with cluster_with_webhooks(
        record_calls(see_stamp), record_calls(stamp, mutating=True)
    ) as cluster:
        made = await cluster.client("me").create(CONFIG_MAPS, config_map(x="y"), "default")
        assert made["data"] == {"x": "y", "by": "me"}
        (owner,) = made["metadata"]["managedFields"]
        assert owner["fieldsV1"]["f:data"] == {".": {}, "f:x": {}}
        with pytest.raises(ApiStatusError) as rejection:
            await cluster.client("eve").create(CONFIG_MAPS, config_map(), "default")
        assert rejection.value.code == 422
        assert rejection.value.message == (
            'admission webhook "hook.example.com" denied the request: data.by: '
            'Invalid value: "eve": must be me'
        )
        assert rejection.value.causes[0]["field"] == "data.by"


@pytest.mark.parametrize("rejected", [False, True])
async def test_warnings_are_returned_with_a_rejection(rejected: bool) -> None:
    async def warn(review: AdmissionRequest) -> AdmissionResponse:
        reported = ("take care",)
        return Denied("no", warnings=reported) if rejected else Allowed(reported)

    async with cluster_with_webhooks(record_calls(warn)) as cluster:
        body = b'{"metadata":{"name":"m"}}'
        kind = {"content-type": "application/json"}
        request = Request("POST", "/api/v1/namespaces/default/configmaps", [], kind, body)
        reply = await cluster.api.handle(request, EVE)
        assert reply.status == (403 if rejected else 201)
        assert reply.headers["warning"] == '299 - "take care"'


async def test_webhook_is_called_for_matching_writes_only() -> None:
    observed: list[tuple[str, bool, bool]] = []

    async def watch(review: AdmissionRequest) -> AdmissionResponse:
        has_old = review.old_object is not None
        observed.append((review.operation, review.object is not None, has_old))
        return Allowed()

    async with cluster_with_webhooks(record_calls(watch, "CREATE", "DELETE")) as cluster:
        client = cluster.client("me")
        await client.create(SECRETS, {"metadata": {"name": "s"}}, "default")
        await client.create(CONFIG_MAPS, config_map(), "default", dry_run=True)
        await client.create(CONFIG_MAPS, config_map(), "default")
        await client.patch(CONFIG_MAPS, "m", {"data": {"a": "b"}}, "default")
        await client.delete(CONFIG_MAPS, "m", "default")
    assert observed == [("CREATE", True, False)] * 2 + [("DELETE", False, True)]


async def test_handler_may_read_from_the_cluster() -> None:
    def webhooks(client_of: Any) -> Sequence[InProcessWebhook]:
        client: Client = client_of("reader")

        async def read(review: AdmissionRequest) -> AdmissionResponse:
            found = await client.list(SECRETS, "default")
            return Allowed() if found.items else Denied("no secret yet")

        return [record_calls(read)]

    settings = ClusterSettings(port=None, controllers="")
    cluster = EmbeddedCluster(settings, clock=LoopClock(), webhooks=webhooks)
    await cluster.start()
    try:
        client = cluster.client("me")
        with pytest.raises(ApiStatusError, match="no secret yet"):
            await client.create(CONFIG_MAPS, config_map(), "default")
        await client.create(SECRETS, {"metadata": {"name": "s"}}, "default")
        await client.create(CONFIG_MAPS, config_map(), "default")
    finally:
        await cluster.stop()


async def test_failing_handler_rejects() -> None:
    async def fail(review: AdmissionRequest) -> AdmissionResponse:
        raise KeyError("spec")

    async with cluster_with_webhooks(record_calls(fail)) as cluster:
        with pytest.raises(ApiStatusError) as rejection:
            await cluster.client("me").create(CONFIG_MAPS, config_map(), "default")
        assert rejection.value.code == 500
        assert rejection.value.message == (
            "Internal error occurred: failed calling webhook \"hook.example.com\": KeyError('spec')"
        )


@pytest.mark.looptime
async def test_hanging_handler_times_out() -> None:
    async def hang(review: AdmissionRequest) -> AdmissionResponse:
        await asyncio.Event().wait()
        return Allowed()

    async with cluster_with_webhooks(record_calls(hang)) as cluster:
        begin = asyncio.get_running_loop().time()
        with pytest.raises(ApiStatusError, match="context deadline exceeded"):
            await cluster.client("me").create(CONFIG_MAPS, config_map(), "default")
        assert asyncio.get_running_loop().time() - begin == pytest.approx(10)
