"""The whole scheduler on an embedded cluster."""

import pytest

from kilonova.kube.client.resource import unstructured_resource
from tests.local.embedded_cluster import EVENTS, PODS, virtual_time, wait_for_condition
from tests.scheduler.harness.embedded_scheduler import (
    GANGS,
    fleet,
    gang,
    nodes_by_pod,
    pod,
    scheduled_cluster,
)

pytestmark = virtual_time

BUDGETS = unstructured_resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True)
CLASSES = unstructured_resource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False
)


async def test_single_pod_gets_a_node_and_a_device() -> None:
    async with scheduled_cluster(fleet(2)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(PODS, pod("a"), "default")

        async def is_running() -> bool:
            found = await client.get(PODS, "a", "default")
            return found.get("status", {}).get("phase") == "Running"

        await wait_for_condition(is_running)
        found = await client.get(PODS, "a", "default")
        assert found["metadata"]["annotations"]["gpu.kilonova.dev/devices"] == "0"


async def test_gang_starts_together_or_not_at_all() -> None:
    async with scheduled_cluster(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        names = [f"w{index}" for index in range(3)]
        for name in names:
            await client.create(PODS, pod(name, 4, gang="g"), "default")
        await client.create(GANGS, gang("g", {"w": names}), "default")

        async def is_reported() -> bool:
            found = await client.get(GANGS, "g", "default")
            conditions = found.get("status", {}).get("conditions", [])
            return any(each["type"] == "Unschedulable" for each in conditions)

        await wait_for_condition(is_reported)
        found = await client.get(GANGS, "g", "default")
        message = found["status"]["conditions"][0]["message"]
        assert "nvidia.com/gpu" in message
        assert set((await nodes_by_pod(client)).values()) == {""}
        await client.delete(PODS, "w2", "default")
        await client.create(PODS, pod("w2", 0, gang="g"), "default")

        async def placed() -> bool:
            return all((await nodes_by_pod(client)).values())

        await wait_for_condition(placed)

        async def scored() -> bool:
            return "placementScore" in (await client.get(GANGS, "g", "default"))["status"]

        await wait_for_condition(scored)
        status = (await client.get(GANGS, "g", "default"))["status"]
        assert status["placementScore"] == 1.0
        statuses = {each["type"]: each["status"] for each in status["conditions"]}
        assert statuses["Unschedulable"] == "False"


async def test_placed_gang_reports_its_placement_score() -> None:
    async with scheduled_cluster(fleet(2)) as (cluster, _):
        client = cluster.client("tester")
        names = [f"w{index}" for index in range(2)]
        for name in names:
            await client.create(PODS, pod(name, 8, gang="g"), "default")
        await client.create(GANGS, gang("g", {"w": names}), "default")

        async def scored() -> bool:
            status = (await client.get(GANGS, "g", "default")).get("status", {})
            return status.get("placementScore") == 1.0

        await wait_for_condition(scored)


async def test_invalid_request_reports_field_value_and_fix() -> None:
    async with scheduled_cluster(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        odd, member = pod("odd", 0), pod("w0", 0, gang="g")
        for each in (odd, member):
            each["metadata"]["annotations"] = {"gpu.kilonova.dev/milli": "lots"}
            await client.create(PODS, each, "default")
        await client.create(GANGS, gang("g", {"w": ["w0"]}), "default")
        expected = "metadata.annotations[gpu.kilonova.dev/milli]: 'lots' is not a GPU share"

        async def both_report_it() -> bool:
            one = await client.get(PODS, "odd", "default")
            all_ = await client.get(GANGS, "g", "default")
            reported = [
                f"{each['reason']} {each['message']}"
                for found in (one, all_)
                for each in found.get("status", {}).get("conditions", [])
            ]
            return sum(expected in each for each in reported) == 2

        await wait_for_condition(both_report_it)
        patch = {"metadata": {"annotations": {"gpu.kilonova.dev/milli": "500"}}}
        for name in ("odd", "w0"):
            await client.patch(PODS, name, patch, "default")

        async def placed() -> bool:
            return all((await nodes_by_pod(client)).values())

        await wait_for_condition(placed)


async def test_pod_with_a_disruption_budget_is_not_preempted() -> None:
    async with scheduled_cluster(fleet(1)) as (cluster, _):
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

        async def is_running() -> bool:
            return bool((await nodes_by_pod(client))["guarded"])

        await wait_for_condition(is_running)
        await client.create(PODS, pod("urgent", 8, priorityClassName="high"), "default")

        async def is_reported() -> bool:
            found = await client.get(PODS, "urgent", "default")
            conditions = found.get("status", {}).get("conditions", [])
            return any(each.get("reason") == "Unschedulable" for each in conditions)

        await wait_for_condition(is_reported)
        assert (await nodes_by_pod(client))["guarded"]
        await client.delete(BUDGETS, "stay", "default")

        async def made_way() -> bool:
            return bool((await nodes_by_pod(client)).get("urgent"))

        await wait_for_condition(made_way)


@pytest.mark.parametrize("gang_of", ["", "patient"])
async def test_pods_with_policy_never_wait_for_free_capacity(gang_of: str) -> None:
    async with scheduled_cluster(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(CLASSES, {"metadata": {"name": "low"}, "value": 1})
        never = {"metadata": {"name": "never"}, "value": 9, "preemptionPolicy": "Never"}
        await client.create(CLASSES, never)
        await client.create(PODS, pod("low", 8, priorityClassName="low"), "default")

        async def is_running() -> bool:
            return bool((await nodes_by_pod(client))["low"])

        await wait_for_condition(is_running)
        patient = pod("patient-0", 8, gang=gang_of, priorityClassName="never")
        await client.create(PODS, patient, "default")
        if gang_of:
            await client.create(GANGS, gang(gang_of, {"w": ["patient-0"]}), "default")

        async def is_reported() -> bool:
            found = await client.get(PODS, "patient-0", "default")
            conditions = found.get("status", {}).get("conditions", [])
            return any(each.get("reason") == "Unschedulable" for each in conditions)

        await wait_for_condition(is_reported)
        assert (await nodes_by_pod(client))["low"]
        await client.delete(PODS, "low", "default")

        async def placed() -> bool:
            return bool((await nodes_by_pod(client))["patient-0"])

        await wait_for_condition(placed)


async def test_gangs_with_equal_requests_report_their_own_groups() -> None:
    async with scheduled_cluster(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        for name in ("alpha", "beta"):
            await client.create(PODS, pod(f"{name}-0", 16, gang=name), "default")
            await client.create(GANGS, gang(name, {f"of-{name}": [f"{name}-0"]}), "default")

        async def messages() -> dict[str, str]:
            found = [await client.get(GANGS, name, "default") for name in ("alpha", "beta")]
            return {
                each["metadata"]["name"]: condition["message"]
                for each in found
                for condition in each.get("status", {}).get("conditions", [])
                if condition["type"] == "Unschedulable"
            }

        async def both_report_it() -> bool:
            return len(await messages()) == 2

        await wait_for_condition(both_report_it)
        for name, message in (await messages()).items():
            assert f"a pod of group of-{name}:" in message


async def test_every_pod_of_a_gang_has_events_of_its_scheduling() -> None:
    async with scheduled_cluster(fleet(2)) as (cluster, _):
        client = cluster.client("tester")
        names = [f"w{index}" for index in range(3)]
        for name in names:
            await client.create(PODS, pod(name, 8, gang="g"), "default")
        await client.create(GANGS, gang("g", {"w": names}), "default")

        async def event_messages(reason: str) -> dict[str, str]:
            events = (await client.list(EVENTS, "default")).items
            return {
                each["involvedObject"]["name"]: each["message"]
                for each in events
                if each["involvedObject"]["kind"] == "Pod" and each["reason"] == reason
            }

        async def failed() -> bool:
            return set(await event_messages("FailedScheduling")) == set(names)

        await wait_for_condition(failed)
        for name in names[1:]:
            await client.delete(PODS, name, "default")
            await client.create(PODS, pod(name, 4, gang="g"), "default")

        async def scheduled() -> bool:
            return set(await event_messages("Scheduled")) == set(names)

        await wait_for_condition(scheduled)
        nodes = await nodes_by_pod(client)
        assert await event_messages("Scheduled") == {
            name: f"Successfully assigned default/{name} to {nodes[name]}" for name in names
        }
