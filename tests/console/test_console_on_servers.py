"""The console on both API servers: changes are shown, and actions are performed."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from kilonova.cli.install import install_definitions
from kilonova.cli.why.console_explainer import build_explainer
from kilonova.console import Console
from kilonova.kube import Client
from kilonova.kube.client.resource import Resource, unstructured_resource
from tests.conftest import Api
from tests.console.console_page import http_session, open_page, post_action, running_console
from tests.local.embedded_cluster import NODES, PODS, find, pod, wait_for_condition

SETS = unstructured_resource("grove.io", "v1alpha1", "podcliquesets", "PodCliqueSet", True)
BUDGETS = unstructured_resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True)
DEPLOYMENTS = unstructured_resource("apps", "v1", "deployments", "Deployment", True)
JOBS = unstructured_resource("batch", "v1", "jobs", "Job", True)
DAEMON_SETS = unstructured_resource("apps", "v1", "daemonsets", "DaemonSet", True)
READ_ONLY = "the console is read-only: start it with --allow-actions"


@asynccontextmanager
async def console_cluster(
    api: Api, *, allow_actions: bool = False
) -> AsyncGenerator[tuple[Client, Console, str]]:
    """A console, and a node of its own for the test."""
    node = f"shown-{api.namespace}"
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "10", "nvidia.com/gpu": "4"}
    async with api.client() as client:
        await install_definitions(client)
        status = {"allocatable": amounts, "capacity": amounts}
        await client.create(NODES, {"metadata": {"name": node}, "status": status})
        try:
            explain = build_explainer(client)
            async with running_console(
                client, allow_actions=allow_actions, explain=explain
            ) as console:
                yield client, console, node
        finally:
            for each in (await client.list(PODS, api.namespace)).items:
                await client.delete(
                    PODS, each["metadata"]["name"], api.namespace, grace_period_seconds=0
                )
            await client.delete(NODES, node)


async def test_changes_reach_open_and_reconnected_viewers(api: Api) -> None:
    async with console_cluster(api) as (client, console, node):
        async with open_page(console) as page:
            await page.wait_for_tables()
            assert page.server_info["cluster"] == "test"
            assert page.server_info["actions"] is False
            assert page.row("nodes", node)["gpus"] == 4
            body = pod("p", nodeName=node, requests={"cpu": "2"})
            await client.create(PODS, body, api.namespace)
            id = f"{api.namespace}/p"
            row = await page.wait_until(lambda page: page.row("pods", id))
            assert (row["node"], row["cpu"], row["workload"]) == (node, 2.0, f"Pod/{id}")
            await client.delete(PODS, "p", api.namespace, grace_period_seconds=0)
            await page.wait_until(lambda page: page.row("pods", id) is None)
        await client.create(PODS, pod("q"), api.namespace)
        async with open_page(console) as page:
            await page.wait_for_tables()
            await page.wait_until(lambda page: page.row("pods", f"{api.namespace}/q"))
            assert page.row("pods", id) is None


async def test_object_is_returned_without_managed_fields(api: Api) -> None:
    async with console_cluster(api) as (client, console, node), http_session(console) as session:
        await client.create(PODS, pod("p"), api.namespace)
        query = {"table": "pods", "id": f"{api.namespace}/p"}
        async with session.get("/api/object", params=query) as reply:
            found = await reply.json()
        assert found["spec"]["containers"][0]["name"] == "main"
        assert "managedFields" not in found["metadata"]
        for query, status in (
            ({"table": "nodes", "id": node}, 200),
            ({"table": "pods", "id": f"{api.namespace}/none"}, 404),
            ({"table": "pods", "id": "none"}, 400),
            ({"table": "nodes", "id": "../pods"}, 400),
            ({"table": "secrets", "id": "a/b"}, 400),
            ({"table": "pods"}, 400),
        ):
            async with session.get("/api/object", params=query) as reply:
                assert reply.status == status, query
                assert status == 200 or (await reply.json())["message"]


async def test_explanation_matches_the_why_command(api: Api) -> None:
    async with console_cluster(api) as (client, console, _), http_session(console) as session:
        body = pod("p", requests={"nvidia.com/gpu": "9"}, schedulerName="kilonova-scheduler")
        body["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": "9"}
        await client.create(PODS, body, api.namespace)
        query = {"namespace": api.namespace, "name": "p"}
        async with session.get("/api/why", params=query) as reply:
            found = await reply.json()
        assert f"Pod {api.namespace}/p (queue default) is pending." in found["text"]
        assert found["answer"]["state"] == "Unschedulable"
        query["name"] = "missing"
        async with session.get("/api/why", params=query) as reply:
            assert reply.status == 404
            assert "no pod or gang 'missing'" in (await reply.json())["message"]


async def test_actions_are_forbidden_by_default(api: Api) -> None:
    async with console_cluster(api) as (client, console, node):
        for action in (
            {"action": "cordon", "table": "nodes", "id": node},
            {"action": "drain", "table": "nodes", "id": node},
            {"action": "delete", "table": "pods", "id": f"{api.namespace}/p"},
            {"action": "scale", "table": "sets", "id": f"{api.namespace}/s", "value": 2},
        ):
            assert await post_action(console, **action) == (403, READ_ONLY)
        assert "unschedulable" not in (await client.get(NODES, node))["spec"]


async def test_actions_are_performed(api: Api) -> None:
    async with console_cluster(api, allow_actions=True) as (client, console, node):
        assert await post_action(console, action="cordon", table="nodes", id=node) == (
            200,
            f"Node {node} cordoned",
        )
        assert (await client.get(NODES, node))["spec"]["unschedulable"] is True
        assert (await post_action(console, action="uncordon", table="nodes", id=node))[0] == 200
        assert "unschedulable" not in (await client.get(NODES, node))["spec"]

        clique = {"name": "a", "spec": {"roleName": "a", "replicas": 1, "podSpec": _containers()}}
        spec = {"replicas": 1, "template": {"cliques": [clique]}}
        await client.create(SETS, {"metadata": {"name": "s"}, "spec": spec}, api.namespace)
        id = f"{api.namespace}/s"
        assert await post_action(console, action="scale", table="sets", id=id, value=3) == (
            200,
            f"PodCliqueSet {id} scaled to 3 replicas",
        )
        assert (await client.get(SETS, "s", api.namespace))["spec"]["replicas"] == 3
        assert (await post_action(console, action="delete", table="sets", id=id))[0] == 200
        await wait_for_condition(_is_gone(client, SETS, "s", api), within=20)


async def test_deployment_is_scaled_restarted_and_deleted(api: Api) -> None:
    async with console_cluster(api, allow_actions=True) as (client, console, _):
        body = _daemon_set() | {"metadata": {"name": "web"}}
        await client.create(DEPLOYMENTS, body, api.namespace)
        target = {"table": "deployments", "id": f"{api.namespace}/web"}
        message = f"Deployment {target['id']} scaled to 3 replicas"
        assert await post_action(console, action="scale", value=3, **target) == (200, message)
        message = f"Deployment {target['id']} restarted: its pods are replaced"
        assert await post_action(console, action="restart", **target) == (200, message)
        spec = (await client.get(DEPLOYMENTS, "web", api.namespace))["spec"]
        assert spec["replicas"] == 3
        assert "kubectl.kubernetes.io/restartedAt" in spec["template"]["metadata"]["annotations"]
        assert spec["template"]["metadata"]["labels"] == {"app": "daemon"}
        assert (await post_action(console, action="delete", **target))[0] == 200
        await wait_for_condition(_is_gone(client, DEPLOYMENTS, "web", api), within=20)


async def test_job_is_suspended_resumed_and_deleted(api: Api) -> None:
    async with console_cluster(api, allow_actions=True) as (client, console, _):
        template = {"spec": _containers() | {"restartPolicy": "Never"}}
        body = {"metadata": {"name": "train"}, "spec": {"template": template}}
        await client.create(JOBS, body, api.namespace)
        target = {"table": "jobs", "id": f"{api.namespace}/train"}
        message = f"Job {target['id']} suspended"
        assert await post_action(console, action="suspend", **target) == (200, message)
        assert (await client.get(JOBS, "train", api.namespace))["spec"]["suspend"] is True
        assert await post_action(console, action="resume", **target) == (
            200,
            f"Job {target['id']} resumed",
        )
        assert (await client.get(JOBS, "train", api.namespace))["spec"]["suspend"] is False
        assert (await post_action(console, action="delete", **target))[0] == 200
        await wait_for_condition(_is_gone(client, JOBS, "train", api), within=20)


def _containers() -> Any:
    return {"containers": [{"name": "main", "image": "img"}]}


def _is_gone(client: Client, resource: Resource[Any], name: str, api: Api) -> Any:
    async def gone() -> bool:
        return await find(client, resource, name, api.namespace) is None

    return gone


async def test_drain_reports_blocked_pods_and_their_budgets(api: Api) -> None:
    async with console_cluster(api, allow_actions=True) as (client, console, node):
        labels = {"app": "protected"}
        budget = {"maxUnavailable": 0, "selector": {"matchLabels": labels}}
        await client.create(
            BUDGETS, {"metadata": {"name": "budget"}, "spec": budget}, api.namespace
        )
        created = await client.create(DAEMON_SETS, _daemon_set(), api.namespace)
        daemon = {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "name": "d",
            "uid": created["metadata"]["uid"],
            "controller": True,
        }
        for name, metadata in (
            ("free", {}),
            ("protected", {"labels": labels}),
            ("daemon", {"ownerReferences": [daemon]}),
            ("mirror", {"annotations": {"kubernetes.io/config.mirror": "x"}}),
        ):
            body = pod(name, metadata=metadata, nodeName=node)
            body["spec"]["terminationGracePeriodSeconds"] = 0
            await client.create(PODS, body, api.namespace)
            status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
            await client.patch(PODS, name, {"status": status}, api.namespace, subresource="status")
        await client.patch(
            BUDGETS, "budget", {"status": _no_disruption()}, api.namespace, subresource="status"
        )
        code, message = await post_action(console, action="drain", table="nodes", id=node)
        assert code == 200
        assert message.startswith(
            f"Node {node} cordoned; 1 pod evicted, 1 pod not evicted: {api.namespace}/protected: "
        )
        assert "budget" in message
        assert (await client.get(NODES, node))["spec"]["unschedulable"] is True
        remaining = {
            each["metadata"]["name"] for each in (await client.list(PODS, api.namespace)).items
        }
        assert remaining >= {"protected", "daemon", "mirror"}


def _daemon_set() -> Any:
    labels = {"app": "daemon"}
    template = {"metadata": {"labels": labels}, "spec": _containers()}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": "d"}, "spec": spec}


def _no_disruption() -> dict[str, int]:
    return {
        "observedGeneration": 1,
        "disruptionsAllowed": 0,
        "currentHealthy": 1,
        "desiredHealthy": 1,
        "expectedPods": 1,
    }
