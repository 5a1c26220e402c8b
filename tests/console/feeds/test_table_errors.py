"""Tables that the console may not read, on both API servers: named with the reason."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from kilonova.cli.install import install_definitions
from kilonova.console import Console
from kilonova.kube import Client, connect
from kilonova.kube.client.resource import unstructured_resource
from tests.conftest import Api
from tests.console.console_page import ConsolePage, open_page, running_console
from tests.console.limited_account import NODES, OTHERS, PODS, QUEUES, LimitedAccount
from tests.console.tcp_relay import TcpRelay, open_relay
from tests.local.embedded_cluster import PODS as ALL_PODS
from tests.local.embedded_cluster import pod
from tests.workloads.process.operator_process import write_token_kubeconfig

DERIVED = ("workloads", "usage", "gpumetrics")
"""Tables joined from others, or polled."""
ALL_QUEUES = unstructured_resource("scheduling.kilonova.dev", "v1alpha1", "queues", "Queue", False)


@dataclass(frozen=True)
class LimitedConsole:
    """A console with limited permissions, connected through a relay."""

    api: Api
    admin: Client
    viewer: LimitedAccount
    relay: TcpRelay
    console: Console

    async def add_pod(self, name: str) -> str:
        """Create a pod; returns the id of its row."""
        await self.admin.create(ALL_PODS, pod(name), self.api.namespace)
        return f"{self.api.namespace}/{name}"


@asynccontextmanager
async def limited_console(
    api: Api, folder: Path, *kinds: tuple[str, str]
) -> AsyncGenerator[LimitedConsole]:
    viewer = LimitedAccount.create(api)
    async with api.client() as admin, open_relay(api.access) as relay:
        await install_definitions(admin)
        viewer.grant(*kinds)
        kubeconfig = write_token_kubeconfig(
            relay.access, folder / "viewer", viewer.account.request_token()
        )
        async with connect(kubeconfig) as client, running_console(client) as console:
            yield LimitedConsole(api, admin, viewer, relay, console)


@pytest.fixture
def queue(api: Api) -> str:
    return f"queue-{api.namespace}"


async def test_forbidden_table_is_named_and_filled_once_permitted(
    api: Api, tmp_path: Path, queue: str
) -> None:
    async with (
        limited_console(api, tmp_path, NODES, PODS) as limited,
        open_page(limited.console) as page,
    ):
        owners = ["deployments", "statefulsets", "jobs", "gpuworkloads"]
        forbidden = ["gangs", "sets", "cliques", *owners, "events", "queues"]
        await page.wait_until(lambda page: list(page.table_errors) == forbidden)
        await page.wait_until(
            lambda page: {"nodes", "pods", "workloads", "usage"} <= set(page.resets)
        )
        await page.wait_until(lambda page: not any(page.loading[-1:]))
        error = page.table_errors["sets"]
        assert (error["resource"], error["reason"]) == ("podcliquesets", "forbidden")
        user = f"system:serviceaccount:{api.namespace}:viewer"
        assert f'podcliquesets.grove.io is forbidden: User "{user}" cannot' in error["message"]
        id = await limited.add_pod("visible")
        await page.wait_until(
            lambda page: page.row("pods", id) and page.row("workloads", f"Pod/{id}")
        )

        await limited.admin.create(ALL_QUEUES, {"metadata": {"name": queue}, "spec": {}})
        limited.viewer.grant(*OTHERS)
        await page.wait_until(lambda page: not page.table_errors, within=30)
        await page.wait_for_tables()
        assert page.row("queues", queue)
        await limited.admin.delete(ALL_QUEUES, queue)


async def test_revoked_permission_is_reported_and_rows_stay(
    api: Api, tmp_path: Path, queue: str
) -> None:
    async with (
        limited_console(api, tmp_path, NODES, PODS, *OTHERS) as limited,
        open_page(limited.console) as page,
    ):
        await page.wait_for_tables()
        await limited.admin.create(ALL_QUEUES, {"metadata": {"name": queue}, "spec": {}})
        await page.wait_until(lambda page: page.row("queues", queue))
        assert page.table_errors == {}
        limited.viewer.revoke(QUEUES)
        # An established watch is not re-authorised; it would end minutes later.
        limited.relay.drop_connections()
        await page.wait_until(lambda page: page.table_errors)
        assert page.table_errors["queues"]["reason"] == "forbidden"
        assert page.row("queues", queue)
        await limited.admin.delete(ALL_QUEUES, queue)
        id = await limited.add_pod("visible")
        await page.wait_until(lambda page: page.row("pods", id))
        assert list(page.table_errors) == ["queues"]
        async with open_page(limited.console) as later:
            await later.wait_until(lambda page: "queues" in page.table_errors)
            assert later.row("queues", queue), "stale rows are sent with the error"

        limited.viewer.grant(QUEUES)
        await page.wait_until(lambda page: not page.table_errors, within=30)
        await page.wait_until(lambda page: not page.row("queues", queue))


async def test_unreachable_cluster_is_reported_until_it_recovers(api: Api, tmp_path: Path) -> None:
    async with (
        limited_console(api, tmp_path, NODES, PODS, *OTHERS) as limited,
        open_page(limited.console) as page,
    ):
        await page.wait_for_tables()
        limited.relay.accepts = False
        limited.relay.drop_connections()
        watched = [table for table in page.server_info["tables"] if table not in DERIVED]
        await page.wait_until(lambda page: list(page.table_errors) == watched)
        assert {each["reason"] for each in page.table_errors.values()} == {"unreachable"}
        id = await limited.add_pod("meanwhile")
        limited.relay.accepts = True
        await page.wait_until(lambda page: not page.table_errors, within=30)
        await page.wait_until(lambda page: page.row("pods", id))


async def test_new_viewer_receives_the_error_of_an_unreachable_cluster(
    api: Api, tmp_path: Path
) -> None:
    viewer = LimitedAccount.create(api)
    async with open_relay(api.access) as relay:
        relay.accepts = False
        kubeconfig = write_token_kubeconfig(
            relay.access, tmp_path / "viewer", viewer.account.request_token()
        )
        async with connect(kubeconfig) as client, running_console(client) as console:
            async with open_page(console) as page:
                assert await page.wait_until(_pods_unreachable)
            async with open_page(console) as page:
                assert await page.wait_until(_pods_unreachable)
                assert page.resets == ["usage", "gpumetrics"]


def _pods_unreachable(page: ConsolePage) -> bool:
    return page.table_errors.get("pods", {}).get("reason") == "unreachable"
