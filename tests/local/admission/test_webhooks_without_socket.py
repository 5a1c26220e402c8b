"""Handlers of reviews that an embedded cluster calls in its own process."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kilonova.kube import ApiStatusError, Client
from kilonova.kube.admission import (
    Allowed,
    Answer,
    Denied,
    Handler,
    Mutated,
    Problem,
    Review,
    invalid,
)
from kilonova.kube.transport import Request
from kilonova.local.admission.inprocess import InProcessWebhook
from kilonova.local.auth import User
from kilonova.local.cluster import Cluster, Settings
from tests.local.embedded_cluster import CONFIG_MAPS, SECRETS, LoopClock

EVE = User("eve", groups=("system:masters",))


def asked(handler: Handler, *operations: Any, mutating: bool = False) -> InProcessWebhook:
    return InProcessWebhook(
        "hook.example.com", handler, "", "configmaps", operations or ("CREATE",), mutating
    )


@asynccontextmanager
async def asking(*webhooks: InProcessWebhook) -> AsyncGenerator[Cluster]:
    """A cluster that asks these."""
    cluster = Cluster(
        Settings(port=None, controllers=""), clock=LoopClock(), webhooks=lambda _: webhooks
    )
    await cluster.start()
    try:
        yield cluster
    finally:
        await cluster.stop()


def config_map(**data: str) -> dict[str, Any]:
    return {"metadata": {"name": "m"}, "data": data}


async def stamp(review: Review) -> Answer:
    assert review.object is not None
    review.object.setdefault("data", {})["by"] = review.user_info.username
    review.object["metadata"].pop("managedFields", None)
    return Mutated(review.object, warnings=("stamped",))


async def see_stamp(review: Review) -> Answer:
    by = (review.object or {}).get("data", {}).get("by", "nobody")
    if by != "me":
        return invalid(Problem("data.by", f'Invalid value: "{by}": must be me'))
    return Allowed()


async def test_an_object_is_changed_first_and_then_judged() -> None:
    async with asking(asked(see_stamp), asked(stamp, mutating=True)) as cluster:
        made = await cluster.client("me").create(CONFIG_MAPS, config_map(x="y"), "default")
        assert made["data"] == {"x": "y", "by": "me"}
        (owner,) = made["metadata"]["managedFields"]
        assert owner["fieldsV1"]["f:data"] == {".": {}, "f:x": {}}
        with pytest.raises(ApiStatusError) as refusal:
            await cluster.client("eve").create(CONFIG_MAPS, config_map(), "default")
        assert refusal.value.code == 422
        assert refusal.value.message == (
            'admission webhook "hook.example.com" denied the request: data.by: '
            'Invalid value: "eve": must be me'
        )
        assert refusal.value.causes[0]["field"] == "data.by"


@pytest.mark.parametrize("refused", [False, True])
async def test_warnings_are_told_also_with_a_refusal(refused: bool) -> None:
    async def warn(review: Review) -> Answer:
        told = ("take care",)
        return Denied("no", warnings=told) if refused else Allowed(told)

    async with asking(asked(warn)) as cluster:
        body = b'{"metadata":{"name":"m"}}'
        kind = {"content-type": "application/json"}
        request = Request("POST", "/api/v1/namespaces/default/configmaps", [], kind, body)
        reply = await cluster.api.handle(request, EVE)
        assert reply.status == (403 if refused else 201)
        assert reply.headers["warning"] == '299 - "take care"'


async def test_only_what_concerns_it_is_asked() -> None:
    seen: list[tuple[str, bool, bool]] = []

    async def watch(review: Review) -> Answer:
        has_old = review.old_object is not None
        seen.append((review.operation, review.object is not None, has_old))
        return Allowed()

    async with asking(asked(watch, "CREATE", "DELETE")) as cluster:
        client = cluster.client("me")
        await client.create(SECRETS, {"metadata": {"name": "s"}}, "default")
        await client.create(CONFIG_MAPS, config_map(), "default", dry_run=True)
        await client.create(CONFIG_MAPS, config_map(), "default")
        await client.patch(CONFIG_MAPS, "m", {"data": {"a": "b"}}, "default")
        await client.delete(CONFIG_MAPS, "m", "default")
    assert seen == [("CREATE", True, False)] * 2 + [("DELETE", False, True)]


async def test_a_handler_may_read_from_the_cluster_that_asks() -> None:
    def webhooks(client_of: Any) -> Sequence[InProcessWebhook]:
        client: Client = client_of("reader")

        async def read(review: Review) -> Answer:
            found = await client.list(SECRETS, "default")
            return Allowed() if found.items else Denied("no secret yet")

        return [asked(read)]

    settings = Settings(port=None, controllers="")
    cluster = Cluster(settings, clock=LoopClock(), webhooks=webhooks)
    await cluster.start()
    try:
        client = cluster.client("me")
        with pytest.raises(ApiStatusError, match="no secret yet"):
            await client.create(CONFIG_MAPS, config_map(), "default")
        await client.create(SECRETS, {"metadata": {"name": "s"}}, "default")
        await client.create(CONFIG_MAPS, config_map(), "default")
    finally:
        await cluster.stop()


async def test_a_handler_that_fails_refuses() -> None:
    async def fail(review: Review) -> Answer:
        raise KeyError("spec")

    async with asking(asked(fail)) as cluster:
        with pytest.raises(ApiStatusError) as refusal:
            await cluster.client("me").create(CONFIG_MAPS, config_map(), "default")
        assert refusal.value.code == 500
        assert refusal.value.message == (
            "Internal error occurred: failed calling webhook \"hook.example.com\": KeyError('spec')"
        )


@pytest.mark.looptime
async def test_a_handler_that_hangs_is_given_up() -> None:
    async def hang(review: Review) -> Answer:
        await asyncio.Event().wait()
        return Allowed()

    async with asking(asked(hang)) as cluster:
        begin = asyncio.get_running_loop().time()
        with pytest.raises(ApiStatusError, match="context deadline exceeded"):
            await cluster.client("me").create(CONFIG_MAPS, config_map(), "default")
        assert asyncio.get_running_loop().time() - begin == pytest.approx(10)
