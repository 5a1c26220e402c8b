"""Tokens of pods over hours: the clock is moved, and the API issues real tokens."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kilonova.cli.up.components.assembly import assemble_cluster
from kilonova.kube import Client
from kilonova.local.clock import SystemClock
from kilonova.local.cluster import ClusterSettings, EmbeddedCluster
from kilonova.local.kubelet_api import OutputStream
from kilonova.local.processnode.cri.client import ShimRuntime
from kilonova.local.processnode.kubelet.objects import Pod
from kilonova.local.processnode.kubelet.volumes.projection import VolumeError
from kilonova.local.processnode.kubelet.volumes.service_account_tokens import ServiceAccountTokens
from tests.local.embedded_cluster import ACCOUNTS, NODES, PODS, wait_for_condition
from tests.local.processnode.kubelet.kubelet_pods import pod
from tests.local.processnode.kubelet.process_cluster import ProcessCluster, is_ready

HOUR = 3600


@dataclass
class MovedClock(SystemClock):
    """This machine's clock, and what a test adds."""

    ahead: timedelta = field(default_factory=timedelta)

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    def move(self, seconds: float) -> None:
        self.ahead += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
async def client(clock: MovedClock) -> AsyncIterator[Client]:
    cluster = EmbeddedCluster(ClusterSettings(port=None, controllers=""), clock)
    await cluster.start()
    try:
        client = cluster.client("test")
        await client.create(ACCOUNTS, {"metadata": {"name": "app"}}, "default")
        yield client
    finally:
        await cluster.stop()


@pytest.fixture
async def owner(client: Client) -> Pod:
    """A pod in the API, since its tokens are bound to it."""
    spec = {"serviceAccountName": "app", "containers": [{"name": "main", "image": "none"}]}
    made = await client.create(PODS, {"metadata": {"name": "p"}, "spec": spec}, "default")
    return pod(serviceAccountName="app", metadata={"uid": made["metadata"]["uid"]})


async def text(tokens: ServiceAccountTokens, owner: Pod, seconds: int) -> str:
    await tokens.ensure_token(owner, "v", 0, {"path": "token", "expirationSeconds": seconds})
    return tokens.get_token("v", 0)


@pytest.mark.parametrize(("life", "refreshed"), [(HOUR, 0.8 * HOUR), (72 * HOUR, 24 * HOUR)])
async def test_a_token_is_renewed_after_four_fifths_of_its_life_or_a_day(
    client: Client, clock: MovedClock, owner: Pod, life: int, refreshed: float
) -> None:
    tokens = ServiceAccountTokens(client, clock.now)
    assert tokens.seconds_to_refresh() is None
    first = await text(tokens, owner, life)
    left = tokens.seconds_to_refresh()
    assert left == pytest.approx(refreshed, abs=2)
    clock.move(refreshed - 5)
    assert await text(tokens, owner, life) == first
    clock.move(10)
    assert tokens.seconds_to_refresh() == 0
    second = await text(tokens, owner, life)
    assert second != first
    assert tokens.seconds_to_refresh() == pytest.approx(refreshed, abs=2)


async def test_an_old_token_is_used_while_it_lasts_and_renewal_is_tried_again_after_a_pause(
    client: Client, clock: MovedClock, owner: Pod
) -> None:
    tokens = ServiceAccountTokens(client, clock.now)
    first = await text(tokens, owner, HOUR)
    await client.delete(ACCOUNTS, "app", "default")
    clock.move(0.9 * HOUR)
    assert await text(tokens, owner, HOUR) == first
    assert tokens.seconds_to_refresh() == pytest.approx(10, abs=1), "not at once, for ever"
    clock.move(0.2 * HOUR)
    with pytest.raises(VolumeError, match=r"failed to fetch token: .*app"):
        await text(tokens, owner, HOUR)
    assert tokens.seconds_to_refresh() == pytest.approx(10, abs=1)


async def test_a_running_pod_sees_its_new_token(clock: MovedClock, tmp_path: Path) -> None:
    settings = ClusterSettings(data=tmp_path / "data", port=0, process_node=True)
    cluster = assemble_cluster(("scheduler",), settings, clock).cluster
    try:
        await cluster.start()
        await cluster.wait_nodes_registered()
        client = cluster.client("test")
        (node,) = (await client.list(NODES)).items
        here = ProcessCluster(cluster, client, node["metadata"]["name"], tmp_path / "data")
        source = {"serviceAccountToken": {"path": "token", "expirationSeconds": HOUR}}
        await here.run(
            "p",
            *("sleep", "1000"),
            container={"volumeMounts": [{"name": "t", "mountPath": "/token-of-a-pod"}]},
            volumes=[{"name": "t", "projected": {"sources": [source]}}],
        )
        running = await here.wait_until("p", is_ready)

        async def seen() -> bytes:
            kubelet = cluster.kubelets.get(here.node)
            process = await kubelet.execute(
                running, "main", ["cat", "/token-of-a-pod/token"], stdin=False, tty=False
            )
            return b"".join(
                [data async for kind, data in process.output() if kind is OutputStream.STDOUT]
            )

        first = await seen()
        clock.move(0.85 * HOUR)
        # It checks the clock once a minute, or when it is woken.
        wake = {"metadata": {"annotations": {"what": "time is it"}}}
        await client.patch(PODS, "p", wake, "default")

        async def has_another() -> bool:
            found = await seen()
            return found not in (b"", first)

        await wait_for_condition(has_another, within=20)
    finally:
        await cluster.stop()
        await ShimRuntime(tmp_path / "data" / "shim").shutdown()
