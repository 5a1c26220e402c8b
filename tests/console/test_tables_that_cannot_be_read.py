"""Tables that the console may not read, or not any more, on both servers: it says which and why."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from kilonova.cli.install import install_definitions
from kilonova.console import Console
from kilonova.kube import Client, connect
from kilonova.kube.resource import plain
from tests.conftest import Api
from tests.console.fewrights import NODES, OTHERS, PODS, QUEUES, Viewer
from tests.console.looking import Page, console_on, page_of
from tests.console.relay import Relay, relay_to
from tests.local.embedded_cluster import PODS as ALL_PODS
from tests.local.embedded_cluster import pod
from tests.workloads.process.operator_process import token_kubeconfig

MADE = ("workloads", "usage")
"""Tables that are made of others, or asked for now and then."""
ALL_QUEUES = plain("scheduling.kilonova.dev", "v1alpha1", "queues", "Queue", False)


@dataclass(frozen=True)
class Stage:
    """A console of somebody with few rights, who reaches the cluster over a relay."""

    api: Api
    admin: Client
    viewer: Viewer
    relay: Relay
    console: Console

    async def add_pod(self, name: str) -> str:
        """A pod, and the id of its row."""
        await self.admin.create(ALL_PODS, pod(name), self.api.namespace)
        return f"{self.api.namespace}/{name}"


@asynccontextmanager
async def stage(api: Api, folder: Path, *kinds: tuple[str, str]) -> AsyncGenerator[Stage]:
    viewer = Viewer.create(api)
    async with api.client() as admin, relay_to(api.access) as relay:
        await install_definitions(admin)
        viewer.grant(*kinds)
        kubeconfig = token_kubeconfig(relay.access, folder / "viewer", viewer.account.token())
        async with connect(kubeconfig) as client, console_on(client) as console:
            yield Stage(api, admin, viewer, relay, console)


@pytest.fixture
def queue(api: Api) -> str:
    return f"queue-{api.namespace}"


async def test_what_may_not_be_read_is_named_with_the_reason_and_comes_with_the_right(
    api: Api, tmp_path: Path, queue: str
) -> None:
    async with stage(api, tmp_path, NODES, PODS) as at, page_of(at.console) as page:
        owners = ["deployments", "statefulsets", "jobs"]
        refused = ["gangs", "sets", "cliques", *owners, "queues", "events"]
        await page.until(lambda page: list(page.troubles) == refused)
        await page.until(lambda page: {"nodes", "pods", "workloads", "usage"} <= set(page.resets))
        await page.until(lambda page: not any(page.loading[-1:]))
        trouble = page.troubles["sets"]
        assert (trouble["what"], trouble["reason"]) == ("podcliquesets", "forbidden")
        user = f"system:serviceaccount:{api.namespace}:viewer"
        assert f'podcliquesets.grove.io is forbidden: User "{user}" cannot' in trouble["message"]
        id = await at.add_pod("seen")
        await page.until(lambda page: page.row("pods", id) and page.row("workloads", f"Pod/{id}"))

        await at.admin.create(ALL_QUEUES, {"metadata": {"name": queue}, "spec": {}})
        at.viewer.grant(*OTHERS)
        await page.until(lambda page: not page.troubles, within=30)
        await page.filled()
        assert page.row("queues", queue)
        await at.admin.delete(ALL_QUEUES, queue)


async def test_a_right_that_is_taken_away_is_missed_and_what_was_seen_stays(
    api: Api, tmp_path: Path, queue: str
) -> None:
    async with stage(api, tmp_path, NODES, PODS, *OTHERS) as at, page_of(at.console) as page:
        await page.filled()
        await at.admin.create(ALL_QUEUES, {"metadata": {"name": queue}, "spec": {}})
        await page.until(lambda page: page.row("queues", queue))
        assert page.troubles == {}
        at.viewer.revoke(QUEUES)
        # A server lets a watch that it has let in go on to its end, some minutes later.
        at.relay.cut()
        await page.until(lambda page: page.troubles)
        assert page.troubles["queues"]["reason"] == "forbidden"
        assert page.row("queues", queue)
        await at.admin.delete(ALL_QUEUES, queue)
        id = await at.add_pod("seen")
        await page.until(lambda page: page.row("pods", id))
        assert list(page.troubles) == ["queues"]
        async with page_of(at.console) as later:
            await later.until(lambda page: "queues" in page.troubles)
            assert later.row("queues", queue), "with the reason, the rows of then"

        at.viewer.grant(QUEUES)
        await page.until(lambda page: not page.troubles, within=30)
        await page.until(lambda page: not page.row("queues", queue))


async def test_a_cluster_that_no_longer_answers_is_told_of_until_it_does(
    api: Api, tmp_path: Path
) -> None:
    async with stage(api, tmp_path, NODES, PODS, *OTHERS) as at, page_of(at.console) as page:
        await page.filled()
        at.relay.leads_on = False
        at.relay.cut()
        watched = [table for table in page.hello["tables"] if table not in MADE]
        await page.until(lambda page: list(page.troubles) == watched)
        assert {each["reason"] for each in page.troubles.values()} == {"unreachable"}
        id = await at.add_pod("meanwhile")
        at.relay.leads_on = True
        await page.until(lambda page: not page.troubles, within=30)
        await page.until(lambda page: page.row("pods", id))


async def test_who_comes_while_the_cluster_does_not_answer_is_told(
    api: Api, tmp_path: Path
) -> None:
    viewer = Viewer.create(api)
    async with relay_to(api.access) as relay:
        relay.leads_on = False
        kubeconfig = token_kubeconfig(relay.access, tmp_path / "viewer", viewer.account.token())
        async with connect(kubeconfig) as client, console_on(client) as console:
            async with page_of(console) as page:
                assert await page.until(_pods_unreachable)
            async with page_of(console) as page:
                assert await page.until(_pods_unreachable)
                assert page.resets == ["usage"]


def _pods_unreachable(page: Page) -> bool:
    return page.troubles.get("pods", {}).get("reason") == "unreachable"
