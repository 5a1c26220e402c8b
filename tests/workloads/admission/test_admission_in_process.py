"""The operator's webhooks inside an embedded cluster, without a socket."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest

from kilonova.cli.install import install_definitions
from kilonova.kube import ApiStatusError, Client, NotFound
from kilonova.local.admission.inprocess import InProcessWebhook
from kilonova.local.cluster import Cluster
from kilonova.local.cluster import Settings as ClusterSettings
from kilonova.workloads.admission import build_handlers, hooks_of
from kilonova.workloads.resources import CLIQUES, SETS
from kilonova.workloads.settings import Settings
from tests.local.embedded_cluster import LoopClock
from tests.workloads.admission.written import clique, pod_clique_set

OPERATOR = "system:serviceaccount:kilonova-system:kilonova-operator"
LABELS = {"app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": "set"}


@asynccontextmanager
async def cluster(settings: Settings) -> AsyncGenerator[Cluster]:
    """A cluster with our kinds, that asks our webhooks."""

    def webhooks(client_of: Callable[[str], Client]) -> list[InProcessWebhook]:
        handlers = build_handlers(client_of(OPERATOR), settings, operator=OPERATOR)
        return [
            InProcessWebhook(
                hook.name,
                handlers[hook.path],
                interest.group,
                resource,
                interest.operations,
                hook.mutating,
            )
            for hook in hooks_of(settings)
            for interest in hook.interests
            for resource in interest.resources
        ]

    made = Cluster(
        ClusterSettings(port=None, controllers="definition-controller"),
        clock=LoopClock(),
        webhooks=webhooks,
    )
    await made.start()
    try:
        await install_definitions(made.client("admin"))
        yield made
    finally:
        await made.stop()


@pytest.mark.looptime
async def test_a_set_is_filled_in_and_judged() -> None:
    async with cluster(Settings()) as made:
        client = made.client("me")
        stored = await client.create(SETS, pod_clique_set(clique("a", 3)), "default")
        assert stored.spec.template.cliques[0].spec.min_available == 3
        renamed = pod_clique_set(clique("a", 3, roleName="other"))
        with pytest.raises(ApiStatusError, match="field is immutable: it was") as refusal:
            await client.patch(SETS, "set", {"spec": renamed["spec"]}, "default")
        assert refusal.value.code == 422
        circle = pod_clique_set(
            clique("a", startsAfter=["b"]),
            clique("b", startsAfter=["a"]),
            name="other",
            cliqueStartupType="CliqueStartupTypeExplicit",
        )
        with pytest.raises(ApiStatusError, match="in a circle: a → b → a"):
            await client.create(SETS, circle, "default")


@pytest.mark.looptime
async def test_only_the_operator_touches_what_it_made() -> None:
    child = {"metadata": {"name": "set-0-a", "labels": LABELS}, "spec": clique("a")["spec"]}
    async with cluster(Settings(authorizer=True, exempt_users=("friend",))) as made:
        client = made.client("me")
        await client.create(SETS, pod_clique_set(clique("a")), "default")
        with pytest.raises(ApiStatusError, match='user "me" may not CREATE it'):
            await client.create(CLIQUES, child, "default")
        await made.client(OPERATOR).create(CLIQUES, child, "default")
        await client.set_scale(CLIQUES, "set-0-a", "default", 2)
        with pytest.raises(ApiStatusError, match='user "me" may not UPDATE it'):
            await client.patch(CLIQUES, "set-0-a", {"spec": {"minAvailable": 1}}, "default")
        await made.client("friend").delete(CLIQUES, "set-0-a", "default")
        with pytest.raises(NotFound):
            await client.get(CLIQUES, "set-0-a", "default")
