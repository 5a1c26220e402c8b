"""The operator's webhooks inside an embedded cluster, without a socket."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest

from kilonova.cli.install import install_definitions
from kilonova.kube import ApiStatusError, Client, NotFound
from kilonova.kube.admission.in_process import InProcessWebhook
from kilonova.local.cluster import ClusterSettings as ClusterSettings
from kilonova.local.cluster import EmbeddedCluster
from kilonova.workloads.admission import build_handlers, list_webhooks
from kilonova.workloads.resources import CLIQUES, SETS
from kilonova.workloads.settings import OperatorSettings
from tests.local.embedded_cluster import LoopClock
from tests.workloads.admission.set_manifests import clique, pod_clique_set

OPERATOR = "system:serviceaccount:kilonova-system:kilonova-operator"
LABELS = {"app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": "set"}


@asynccontextmanager
async def cluster_with_webhooks(settings: OperatorSettings) -> AsyncGenerator[EmbeddedCluster]:
    """A cluster with our CRDs that calls our webhooks."""

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
            for hook in list_webhooks(settings)
            for interest in hook.rules
            for resource in interest.resources
        ]

    created = EmbeddedCluster(
        ClusterSettings(port=None, controllers="definition-controller"),
        clock=LoopClock(),
        webhooks=webhooks,
    )
    await created.start()
    try:
        await install_definitions(created.client("admin"))
        yield created
    finally:
        await created.stop()


@pytest.mark.looptime
async def test_set_is_defaulted_and_validated() -> None:
    async with cluster_with_webhooks(OperatorSettings()) as created:
        client = created.client("me")
        stored = await client.create(SETS, pod_clique_set(clique("a", 3)), "default")
        assert stored.spec.template.cliques[0].spec.min_available == 3
        renamed = pod_clique_set(clique("a", 3, roleName="other"))
        with pytest.raises(ApiStatusError, match="field is immutable: it was") as rejection:
            await client.patch(SETS, "set", {"spec": renamed["spec"]}, "default")
        assert rejection.value.code == 422
        cycle = pod_clique_set(
            clique("a", startsAfter=["b"]),
            clique("b", startsAfter=["a"]),
            name="other",
            cliqueStartupType="CliqueStartupTypeExplicit",
        )
        with pytest.raises(ApiStatusError, match="form a cycle: a → b → a"):
            await client.create(SETS, cycle, "default")


@pytest.mark.looptime
async def test_only_the_operator_changes_managed_objects() -> None:
    child = {"metadata": {"name": "set-0-a", "labels": LABELS}, "spec": clique("a")["spec"]}
    async with cluster_with_webhooks(
        OperatorSettings(authorizer=True, exempt_users=("friend",))
    ) as created:
        client = created.client("me")
        await client.create(SETS, pod_clique_set(clique("a")), "default")
        with pytest.raises(ApiStatusError, match='user "me" is not allowed to CREATE it'):
            await client.create(CLIQUES, child, "default")
        await created.client(OPERATOR).create(CLIQUES, child, "default")
        await client.set_scale(CLIQUES, "set-0-a", "default", 2)
        with pytest.raises(ApiStatusError, match='user "me" is not allowed to UPDATE it'):
            await client.patch(CLIQUES, "set-0-a", {"spec": {"minAvailable": 1}}, "default")
        await created.client("friend").delete(CLIQUES, "set-0-a", "default")
        with pytest.raises(NotFound):
            await client.get(CLIQUES, "set-0-a", "default")
