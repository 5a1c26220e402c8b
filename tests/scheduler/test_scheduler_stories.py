"""The whole scheduler on an embedded cluster."""

import pytest

from kilonova.kube.resource import plain
from tests.local.embedded_cluster import EVENTS, PODS, eventually, virtual_time
from tests.scheduler.scheduling import GANGS, fleet, gang, nodes_of, pod, scheduling

pytestmark = virtual_time

BUDGETS = plain("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True)
CLASSES = plain("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False)


async def test_a_lone_pod_gets_a_node_and_a_device() -> None:
    async with scheduling(fleet(2)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(PODS, pod("a"), "default")

        async def runs() -> bool:
            found = await client.get(PODS, "a", "default")
            return found.get("status", {}).get("phase") == "Running"

        await eventually(runs)
        found = await client.get(PODS, "a", "default")
        assert found["metadata"]["annotations"]["gpu.kilonova.dev/devices"] == "0"


async def test_a_gang_starts_together_or_not_at_all() -> None:
    async with scheduling(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        names = [f"w{index}" for index in range(3)]
        for name in names:
            await client.create(PODS, pod(name, 4, of="g"), "default")
        await client.create(GANGS, gang("g", {"w": names}), "default")

        async def told() -> bool:
            found = await client.get(GANGS, "g", "default")
            conditions = found.get("status", {}).get("conditions", [])
            return any(each["type"] == "Unschedulable" for each in conditions)

        await eventually(told)
        found = await client.get(GANGS, "g", "default")
        message = found["status"]["conditions"][0]["message"]
        assert "nvidia.com/gpu" in message
        assert set((await nodes_of(client)).values()) == {""}
        await client.delete(PODS, "w2", "default")
        await client.create(PODS, pod("w2", 0, of="g"), "default")

        async def placed() -> bool:
            return all((await nodes_of(client)).values())

        await eventually(placed)

        async def scored() -> bool:
            return "placementScore" in (await client.get(GANGS, "g", "default"))["status"]

        await eventually(scored)
        status = (await client.get(GANGS, "g", "default"))["status"]
        assert status["placementScore"] == 1.0
        said = {each["type"]: each["status"] for each in status["conditions"]}
        assert said["Unschedulable"] == "False"


async def test_a_gang_that_finds_its_place_at_once_is_told_how_good_it_is() -> None:
    async with scheduling(fleet(2)) as (cluster, _):
        client = cluster.client("tester")
        names = [f"w{index}" for index in range(2)]
        for name in names:
            await client.create(PODS, pod(name, 8, of="g"), "default")
        await client.create(GANGS, gang("g", {"w": names}), "default")

        async def scored() -> bool:
            status = (await client.get(GANGS, "g", "default")).get("status", {})
            return status.get("placementScore") == 1.0

        await eventually(scored)


async def test_what_nobody_can_read_is_told_with_field_value_and_fix() -> None:
    async with scheduling(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        odd, member = pod("odd", 0), pod("w0", 0, of="g")
        for each in (odd, member):
            each["metadata"]["annotations"] = {"gpu.kilonova.dev/milli": "lots"}
            await client.create(PODS, each, "default")
        await client.create(GANGS, gang("g", {"w": ["w0"]}), "default")
        told = "metadata.annotations[gpu.kilonova.dev/milli]: 'lots' is no share of a GPU"

        async def both_told() -> bool:
            one = await client.get(PODS, "odd", "default")
            all_ = await client.get(GANGS, "g", "default")
            said = [
                f"{each['reason']} {each['message']}"
                for found in (one, all_)
                for each in found.get("status", {}).get("conditions", [])
            ]
            return sum(told in each for each in said) == 2

        await eventually(both_told)
        patch = {"metadata": {"annotations": {"gpu.kilonova.dev/milli": "500"}}}
        for name in ("odd", "w0"):
            await client.patch(PODS, name, patch, "default")

        async def placed() -> bool:
            return all((await nodes_of(client)).values())

        await eventually(placed)


async def test_a_pod_that_a_disruption_budget_guards_makes_no_way() -> None:
    async with scheduling(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        for name, value in (("low", 1), ("high", 9)):
            body = {"metadata": {"name": name}, "value": value}
            await client.create(CLASSES, body)
        guarded = pod("guarded", 8, priorityClassName="low")
        guarded["metadata"]["labels"] = {"app": "guarded"}
        budget = {
            "metadata": {"name": "stay"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}},
        }
        await client.create(BUDGETS, budget, "default")
        await client.create(PODS, guarded, "default")

        async def runs() -> bool:
            return bool((await nodes_of(client))["guarded"])

        await eventually(runs)
        await client.create(PODS, pod("urgent", 8, priorityClassName="high"), "default")

        async def told() -> bool:
            found = await client.get(PODS, "urgent", "default")
            conditions = found.get("status", {}).get("conditions", [])
            return any(each.get("reason") == "Unschedulable" for each in conditions)

        await eventually(told)
        assert (await nodes_of(client))["guarded"]
        await client.delete(BUDGETS, "stay", "default")

        async def made_way() -> bool:
            return bool((await nodes_of(client)).get("urgent"))

        await eventually(made_way)


@pytest.mark.parametrize("gang_of", ["", "patient"])
async def test_pods_that_never_preempt_wait_until_capacity_is_free(gang_of: str) -> None:
    async with scheduling(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(CLASSES, {"metadata": {"name": "low"}, "value": 1})
        never = {"metadata": {"name": "never"}, "value": 9, "preemptionPolicy": "Never"}
        await client.create(CLASSES, never)
        await client.create(PODS, pod("low", 8, priorityClassName="low"), "default")

        async def runs() -> bool:
            return bool((await nodes_of(client))["low"])

        await eventually(runs)
        patient = pod("patient-0", 8, of=gang_of, priorityClassName="never")
        await client.create(PODS, patient, "default")
        if gang_of:
            await client.create(GANGS, gang(gang_of, {"w": ["patient-0"]}), "default")

        async def told() -> bool:
            found = await client.get(PODS, "patient-0", "default")
            conditions = found.get("status", {}).get("conditions", [])
            return any(each.get("reason") == "Unschedulable" for each in conditions)

        await eventually(told)
        assert (await nodes_of(client))["low"]
        await client.delete(PODS, "low", "default")

        async def placed() -> bool:
            return bool((await nodes_of(client))["patient-0"])

        await eventually(placed)


async def test_gangs_that_ask_for_the_same_are_told_of_their_own_groups() -> None:
    async with scheduling(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        for name in ("alpha", "beta"):
            await client.create(PODS, pod(f"{name}-0", 16, of=name), "default")
            await client.create(GANGS, gang(name, {f"of-{name}": [f"{name}-0"]}), "default")

        async def messages() -> dict[str, str]:
            found = [await client.get(GANGS, name, "default") for name in ("alpha", "beta")]
            return {
                each["metadata"]["name"]: condition["message"]
                for each in found
                for condition in each.get("status", {}).get("conditions", [])
                if condition["type"] == "Unschedulable"
            }

        async def both_told() -> bool:
            return len(await messages()) == 2

        await eventually(both_told)
        for name, message in (await messages()).items():
            assert f"a pod of group of-{name}:" in message


async def test_every_pod_of_a_gang_has_events_of_its_scheduling() -> None:
    async with scheduling(fleet(2)) as (cluster, _):
        client = cluster.client("tester")
        names = [f"w{index}" for index in range(3)]
        for name in names:
            await client.create(PODS, pod(name, 8, of="g"), "default")
        await client.create(GANGS, gang("g", {"w": names}), "default")

        async def told(reason: str) -> dict[str, str]:
            events = (await client.list(EVENTS, "default")).items
            return {
                each["involvedObject"]["name"]: each["message"]
                for each in events
                if each["involvedObject"]["kind"] == "Pod" and each["reason"] == reason
            }

        async def failed() -> bool:
            return set(await told("FailedScheduling")) == set(names)

        await eventually(failed)
        for name in names[1:]:
            await client.delete(PODS, name, "default")
            await client.create(PODS, pod(name, 4, of="g"), "default")

        async def scheduled() -> bool:
            return set(await told("Scheduled")) == set(names)

        await eventually(scheduled)
        nodes = await nodes_of(client)
        assert await told("Scheduled") == {
            name: f"Successfully assigned default/{name} to {nodes[name]}" for name in names
        }
