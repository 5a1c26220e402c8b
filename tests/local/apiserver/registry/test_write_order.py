"""The order of a write, seen through what each stage leaves to the next."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kilonova.api.json import JsonObject
from kilonova.kube import ApiStatusError
from kilonova.kube.admission import AdmissionRequest, AdmissionResponse, Allowed, Denied, Mutated
from kilonova.kube.admission.in_process import InProcessWebhook
from kilonova.local.apiserver.registry import writes
from kilonova.local.cluster import ClusterSettings, EmbeddedCluster
from tests.local.embedded_cluster import SECRETS, LoopClock

DOCUMENT = Path(__file__).parents[4] / "docs" / "internals" / "embedded-api.md"


class Webhooks:
    """Records the objects that mutating and validating webhooks see."""

    def __init__(self) -> None:
        self.mutated: list[JsonObject] = []
        self.validated: list[JsonObject] = []
        self.denies = False
        self.removes_type = False

    async def mutate(self, review: AdmissionRequest) -> AdmissionResponse:
        self.mutated.append(review.object or {})
        if not self.removes_type:
            return Allowed()
        return Mutated({key: each for key, each in (review.object or {}).items() if key != "type"})

    async def validate(self, review: AdmissionRequest) -> AdmissionResponse:
        self.validated.append(review.object or {})
        return Denied("no") if self.denies else Allowed()


@asynccontextmanager
async def cluster_with(webhooks: Webhooks) -> AsyncGenerator[EmbeddedCluster]:
    operations = ("CREATE", "UPDATE")
    hooks = [
        InProcessWebhook("m.example", webhooks.mutate, "", "secrets", operations, mutating=True),
        InProcessWebhook("v.example", webhooks.validate, "", "secrets", operations),
    ]
    cluster = EmbeddedCluster(
        ClusterSettings(port=None, controllers=""), clock=LoopClock(), webhooks=lambda _: hooks
    )
    await cluster.start()
    try:
        yield cluster
    finally:
        await cluster.stop()


async def test_schema_and_ownership_precede_mutation_and_preparation_follows() -> None:
    webhooks = Webhooks()
    async with cluster_with(webhooks) as cluster:
        sent: JsonObject = {"metadata": {"generateName": "s-"}, "unknown": 1}
        made = await cluster.client("me").create(SECRETS, sent, "default")
    (mutated,), (validated,) = webhooks.mutated, webhooks.validated
    assert "unknown" not in mutated
    assert mutated["type"] == "Opaque"
    assert mutated["metadata"]["managedFields"]
    assert not {"name", "uid"} & mutated["metadata"].keys()
    assert validated["metadata"]["name"] == made["metadata"]["name"]
    assert validated["metadata"]["uid"] == made["metadata"]["uid"]
    assert "resourceVersion" not in validated["metadata"]


async def test_defaults_are_applied_again_after_a_mutating_webhook() -> None:
    webhooks = Webhooks()
    webhooks.removes_type = True
    async with cluster_with(webhooks) as cluster:
        made = await cluster.client("me").create(SECRETS, {"metadata": {"name": "s"}}, "default")
    (mutated,), (validated,) = webhooks.mutated, webhooks.validated
    assert mutated["type"] == validated["type"] == made["type"] == "Opaque"


async def test_invalid_object_is_mutated_but_reaches_no_validating_webhook() -> None:
    webhooks = Webhooks()
    async with cluster_with(webhooks) as cluster:
        client = cluster.client("me")
        await client.create(SECRETS, {"metadata": {"name": "s"}}, "default")
        webhooks.mutated.clear()
        webhooks.validated.clear()
        invalid: JsonObject = {"metadata": {"name": "t"}, "stringData": {"not a key": "x"}}
        with pytest.raises(ApiStatusError) as created:
            await client.create(SECRETS, invalid, "default")
        with pytest.raises(ApiStatusError) as updated:
            await client.patch(SECRETS, "s", {"type": "changed"}, "default")
    assert (created.value.code, updated.value.code) == (422, 422)
    assert len(webhooks.mutated) == 2
    assert not webhooks.validated


async def test_rejected_object_is_not_stored() -> None:
    webhooks = Webhooks()
    webhooks.denies = True
    async with cluster_with(webhooks) as cluster:
        before = cluster.store.revision
        with pytest.raises(ApiStatusError):
            await cluster.client("me").create(SECRETS, {"metadata": {"name": "s"}}, "default")
        assert len(webhooks.validated) == 1
        assert cluster.store.revision == before


def test_order_is_documented_as_in_the_module_that_runs_it() -> None:
    order = next(part for part in (writes.__doc__ or "").split("\n\n") if "→" in part)
    assert " ".join(order.split()) in " ".join(DOCUMENT.read_text().split())
