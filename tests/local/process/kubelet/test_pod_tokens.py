"""Tokens of pods, as hours go by: the clock is moved, and the API really issues them."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kilonova.cli.residents import Residents
from kilonova.kube import Client
from kilonova.local.clock import SystemClock
from kilonova.local.cluster import Cluster, Settings
from kilonova.local.kubelets import Output
from kilonova.local.nodes.process.keeper.client import KeeperRuntime
from kilonova.local.nodes.process.kubelet.payloads import VolumeError
from kilonova.local.nodes.process.kubelet.pods import Pod
from kilonova.local.nodes.process.kubelet.tokens import PodTokens
from tests.local.embedded_cluster import ACCOUNTS, NODES, PODS, eventually
from tests.local.process.kubelet.kubelet_pods import pod
from tests.local.process.kubelet.process_cluster import ProcessCluster, is_ready

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
    cluster = Cluster(Settings(port=None, controllers=""), clock)
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


async def text(tokens: PodTokens, owner: Pod, seconds: int) -> str:
    await tokens.ensure(owner, "v", 0, {"path": "token", "expirationSeconds": seconds})
    return tokens.text("v", 0)


@pytest.mark.parametrize(("life", "refreshed"), [(HOUR, 0.8 * HOUR), (72 * HOUR, 24 * HOUR)])
async def test_a_token_is_renewed_after_four_fifths_of_its_life_or_a_day(
    client: Client, clock: MovedClock, owner: Pod, life: int, refreshed: float
) -> None:
    tokens = PodTokens(client, clock.now)
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
    tokens = PodTokens(client, clock.now)
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
    settings = Settings(data=tmp_path / "data", port=0, process_node=True)
    cluster = Residents(operator=False).cluster(settings, clock)
    try:
        await cluster.start()
        await cluster.wait_settled()
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
        running = await here.until("p", is_ready)

        async def seen() -> bytes:
            kubelet = cluster.kubelets.find(here.node)
            process = await kubelet.execute(
                running, "main", ["cat", "/token-of-a-pod/token"], stdin=False, tty=False
            )
            return b"".join(
                [data async for kind, data in process.output() if kind is Output.STDOUT]
            )

        first = await seen()
        clock.move(0.85 * HOUR)
        # It looks at the clock once a minute, or when it is woken.
        wake = {"metadata": {"annotations": {"what": "time is it"}}}
        await client.patch(PODS, "p", wake, "default")

        async def has_another() -> bool:
            found = await seen()
            return found not in (b"", first)

        await eventually(has_another, within=20)
    finally:
        await cluster.stop()
        await KeeperRuntime(tmp_path / "data" / "keeper").shutdown()
