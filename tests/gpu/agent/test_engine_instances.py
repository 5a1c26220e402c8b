"""The MIG engine as device plugin and DRA driver see it, beside the agent that reconciles."""

import asyncio
from pathlib import Path

import pytest

from kilonova.api.gpu.annotations import DeviceAssignment, parse_devices
from kilonova.gpu.kubelet.interfaces import AllocationRefused
from tests.gpu.agent.local_agents import build_backend, create_pod, run_agent, run_node
from tests.gpu.agent.test_local_agent import wait_for_instances
from tests.local.embedded_cluster import PODS, advance_time, virtual_time

pytestmark = virtual_time


def assigned(text: str) -> tuple[DeviceAssignment, ...]:
    parsed = parse_devices(text)
    assert isinstance(parsed, tuple)
    return parsed


async def test_instances_of_a_pod_that_the_agent_has_not_seen_are_made(tmp_path: Path) -> None:
    async with run_node() as (_, client), run_agent(client, build_backend(), tmp_path) as local:
        await wait_for_instances(client, {})
        (slot,) = assigned("0:1g.10gb@2")
        making = asyncio.create_task(local.instances.ensure_instances("uid-unseen", (slot,)))
        for _ in range(10):  # the agent reconciles all the while
            local.wake()
            await asyncio.sleep(0.2)
        made = await making
        assert made[slot].start == 2
        await wait_for_instances(client, {0: [("1g.10gb", 2)]})


async def test_owner_keeps_its_instances_until_it_gives_them_back(tmp_path: Path) -> None:
    async with run_node() as (_, client), run_agent(client, build_backend(), tmp_path) as local:
        await local.instances.ensure_instances("claim", assigned("0:1g.10gb@2"))
        await create_pod(client, "large", "0:3g.40gb@0")
        await advance_time(60)
        await wait_for_instances(client, {0: [("1g.10gb", 2)]})
        await local.instances.release_instances("claim")
        await wait_for_instances(client, {0: [("3g.40gb", 0)]})


async def test_whole_device_leaves_mig_mode_before_it_is_given(tmp_path: Path) -> None:
    backend = build_backend()
    async with (
        run_node(["0:1g.10gb@0"]) as (_, client),
        run_agent(client, backend, tmp_path) as local,
    ):
        await wait_for_instances(client, {0: [("1g.10gb", 0)]})
        with pytest.raises(AllocationRefused, match="reserved"):
            await local.instances.ensure_instances("claim", assigned("0"))
        await client.delete(PODS, "pod-0", "default", grace_period_seconds=0)
        await advance_time(2)
        await local.instances.ensure_instances("claim", assigned("0"))
        assert not backend.read_inventory().devices[0].mig_enabled


async def test_unknown_gpu_is_refused(tmp_path: Path) -> None:
    async with run_node() as (_, client), run_agent(client, build_backend(), tmp_path) as local:
        with pytest.raises(AllocationRefused, match="GPU 7 is gone: the node has 2"):
            await local.instances.ensure_instances("claim", assigned("7"))


async def test_refused_owner_holds_nothing(tmp_path: Path) -> None:
    async with run_node() as (_, client), run_agent(client, build_backend(), tmp_path) as local:
        await local.instances.ensure_instances("first", assigned("0:1g.10gb@0"))
        with pytest.raises(AllocationRefused, match="belong"):
            await local.instances.ensure_instances("second", assigned("0:1g.10gb@0"))
        assert set(local.instances.owners()) == {"first"}
