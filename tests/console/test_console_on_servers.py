"""The console on both servers: what changes is seen, and what is asked for is done."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from kilonova.cli.consolewhy import explainer
from kilonova.cli.install import install_definitions
from kilonova.console import Console
from kilonova.kube import Client
from kilonova.kube.resource import Resource, plain
from tests.conftest import Api
from tests.console.looking import act, browser, console_on, page_of
from tests.local.embedded_cluster import NODES, PODS, eventually, find, pod

SETS = plain("grove.io", "v1alpha1", "podcliquesets", "PodCliqueSet", True)
BUDGETS = plain("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True)
DEPLOYMENTS = plain("apps", "v1", "deployments", "Deployment", True)
JOBS = plain("batch", "v1", "jobs", "Job", True)
DAEMON_SETS = plain("apps", "v1", "daemonsets", "DaemonSet", True)
READ_ONLY = "the console is read-only: start it with --allow-actions"


@asynccontextmanager
async def stage(
    api: Api, *, allow_actions: bool = False
) -> AsyncGenerator[tuple[Client, Console, str]]:
    """A console, and a node of this test's own."""
    node = f"shown-{api.namespace}"
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "10", "nvidia.com/gpu": "4"}
    async with api.client() as client:
        await install_definitions(client)
        status = {"allocatable": amounts, "capacity": amounts}
        await client.create(NODES, {"metadata": {"name": node}, "status": status})
        try:
            why = explainer(client)
            async with console_on(client, allow_actions=allow_actions, explain=why) as console:
                yield client, console, node
        finally:
            for each in (await client.list(PODS, api.namespace)).items:
                await client.delete(PODS, each["metadata"]["name"], api.namespace, grace=0)
            await client.delete(NODES, node)


async def test_what_changes_is_seen_and_seen_again_by_who_comes_back(api: Api) -> None:
    async with stage(api) as (client, console, node):
        async with page_of(console) as page:
            await page.filled()
            assert page.hello["cluster"] == "test"
            assert page.hello["actions"] is False
            assert page.row("nodes", node)["gpus"] == 4
            body = pod("p", nodeName=node, requests={"cpu": "2"})
            await client.create(PODS, body, api.namespace)
            id = f"{api.namespace}/p"
            row = await page.until(lambda page: page.row("pods", id))
            assert (row["node"], row["cpu"], row["workload"]) == (node, 2.0, f"Pod/{id}")
            await client.delete(PODS, "p", api.namespace, grace=0)
            await page.until(lambda page: page.row("pods", id) is None)
        await client.create(PODS, pod("q"), api.namespace)
        async with page_of(console) as page:
            await page.filled()
            await page.until(lambda page: page.row("pods", f"{api.namespace}/q"))
            assert page.row("pods", id) is None


async def test_an_object_is_shown_as_it_is_but_for_who_manages_its_fields(api: Api) -> None:
    async with stage(api) as (client, console, node), browser(console) as session:
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


async def test_why_is_answered_as_the_command_does(api: Api) -> None:
    async with stage(api) as (client, console, _), browser(console) as session:
        body = pod("p", requests={"nvidia.com/gpu": "9"}, schedulerName="kilonova-scheduler")
        body["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": "9"}
        await client.create(PODS, body, api.namespace)
        query = {"namespace": api.namespace, "name": "p"}
        async with session.get("/api/why", params=query) as reply:
            found = await reply.json()
        assert f"Pod {api.namespace}/p (queue default) waits." in found["text"]
        assert found["answer"]["state"] == "Waiting"
        query["name"] = "nobody"
        async with session.get("/api/why", params=query) as reply:
            assert reply.status == 404
            assert "no pod or gang 'nobody'" in (await reply.json())["message"]


async def test_nothing_is_done_unless_it_was_started_so(api: Api) -> None:
    async with stage(api) as (client, console, node):
        for action in (
            {"act": "cordon", "table": "nodes", "id": node},
            {"act": "drain", "table": "nodes", "id": node},
            {"act": "delete", "table": "pods", "id": f"{api.namespace}/p"},
            {"act": "scale", "table": "sets", "id": f"{api.namespace}/s", "replicas": 2},
        ):
            assert await act(console, **action) == (403, READ_ONLY)
        assert "unschedulable" not in (await client.get(NODES, node))["spec"]


async def test_what_is_asked_for_is_done(api: Api) -> None:
    async with stage(api, allow_actions=True) as (client, console, node):
        assert await act(console, act="cordon", table="nodes", id=node) == (
            200,
            f"Node {node} takes no new pods",
        )
        assert (await client.get(NODES, node))["spec"]["unschedulable"] is True
        assert (await act(console, act="uncordon", table="nodes", id=node))[0] == 200
        assert "unschedulable" not in (await client.get(NODES, node))["spec"]

        clique = {"name": "a", "spec": {"roleName": "a", "replicas": 1, "podSpec": _containers()}}
        spec = {"replicas": 1, "template": {"cliques": [clique]}}
        await client.create(SETS, {"metadata": {"name": "s"}, "spec": spec}, api.namespace)
        id = f"{api.namespace}/s"
        assert await act(console, act="scale", table="sets", id=id, replicas=3) == (
            200,
            f"PodCliqueSet {id} is asked for 3 replicas",
        )
        assert (await client.get(SETS, "s", api.namespace))["spec"]["replicas"] == 3
        assert (await act(console, act="delete", table="sets", id=id))[0] == 200
        await eventually(_is_gone(client, SETS, "s", api), within=20)


async def test_a_deployment_is_scaled_restarted_and_deleted(api: Api) -> None:
    async with stage(api, allow_actions=True) as (client, console, _):
        body = _daemon_set() | {"metadata": {"name": "web"}}
        await client.create(DEPLOYMENTS, body, api.namespace)
        of = {"table": "deployments", "id": f"{api.namespace}/web"}
        said = f"Deployment {of['id']} is asked for 3 replicas"
        assert await act(console, act="scale", replicas=3, **of) == (200, said)
        said = f"Deployment {of['id']} replaces its pods"
        assert await act(console, act="restart", **of) == (200, said)
        spec = (await client.get(DEPLOYMENTS, "web", api.namespace))["spec"]
        assert spec["replicas"] == 3
        assert "kubectl.kubernetes.io/restartedAt" in spec["template"]["metadata"]["annotations"]
        assert spec["template"]["metadata"]["labels"] == {"app": "daemon"}
        assert (await act(console, act="delete", **of))[0] == 200
        await eventually(_is_gone(client, DEPLOYMENTS, "web", api), within=20)


async def test_a_job_is_suspended_resumed_and_deleted(api: Api) -> None:
    async with stage(api, allow_actions=True) as (client, console, _):
        template = {"spec": _containers() | {"restartPolicy": "Never"}}
        body = {"metadata": {"name": "train"}, "spec": {"template": template}}
        await client.create(JOBS, body, api.namespace)
        of = {"table": "jobs", "id": f"{api.namespace}/train"}
        said = f"Job {of['id']} ends its pods and waits"
        assert await act(console, act="suspend", **of) == (200, said)
        assert (await client.get(JOBS, "train", api.namespace))["spec"]["suspend"] is True
        assert await act(console, act="resume", **of) == (200, f"Job {of['id']} goes on")
        assert (await client.get(JOBS, "train", api.namespace))["spec"]["suspend"] is False
        assert (await act(console, act="delete", **of))[0] == 200
        await eventually(_is_gone(client, JOBS, "train", api), within=20)


def _containers() -> Any:
    return {"containers": [{"name": "main", "image": "img"}]}


def _is_gone(client: Client, resource: Resource[Any], name: str, api: Api) -> Any:
    async def gone() -> bool:
        return await find(client, resource, name, api.namespace) is None

    return gone


async def test_a_drain_says_who_is_held_back_and_by_what(api: Api) -> None:
    async with stage(api, allow_actions=True) as (client, console, node):
        labels = {"app": "kept"}
        budget = {"maxUnavailable": 0, "selector": {"matchLabels": labels}}
        await client.create(
            BUDGETS, {"metadata": {"name": "keep-it"}, "spec": budget}, api.namespace
        )
        made = await client.create(DAEMON_SETS, _daemon_set(), api.namespace)
        daemon = {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "name": "d",
            "uid": made["metadata"]["uid"],
            "controller": True,
        }
        for name, metadata in (
            ("free", {}),
            ("kept", {"labels": labels}),
            ("daemon", {"ownerReferences": [daemon]}),
            ("mirror", {"annotations": {"kubernetes.io/config.mirror": "x"}}),
        ):
            body = pod(name, metadata=metadata, nodeName=node)
            body["spec"]["terminationGracePeriodSeconds"] = 0
            await client.create(PODS, body, api.namespace)
            status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
            await client.patch(PODS, name, {"status": status}, api.namespace, subresource="status")
        await client.patch(
            BUDGETS, "keep-it", {"status": _no_disruption()}, api.namespace, subresource="status"
        )
        code, said = await act(console, act="drain", table="nodes", id=node)
        assert code == 200
        assert said.startswith(
            f"Node {node} takes no new pods; 1 pod is told to go, 1 pod is held back: "
            f"{api.namespace}/kept: "
        )
        assert "keep-it" in said
        assert (await client.get(NODES, node))["spec"]["unschedulable"] is True
        left = {each["metadata"]["name"] for each in (await client.list(PODS, api.namespace)).items}
        assert left >= {"kept", "daemon", "mirror"}


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
