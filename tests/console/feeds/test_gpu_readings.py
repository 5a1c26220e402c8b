"""Live metrics of GPUs: from NodeMetrics, and from the source of a component."""

from collections.abc import AsyncIterator, Mapping

import pytest
import pytest_asyncio

from kilonova.api.gpu.metrics import GpuReading
from kilonova.component.console import ConsoleContribution, GpuMetricsSource
from kilonova.kube import Client, ConnectionFailed
from tests.console.console_page import open_page, running_console
from tests.local.embedded_cluster import NODES, run_cluster

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client() -> AsyncIterator[Client]:
    async with run_cluster() as cluster:
        client = cluster.client("kilonova")
        await client.create(NODES, {"metadata": {"name": "measured"}})
        yield client


async def test_source_of_a_component_is_read_while_a_page_is_open(client: Client) -> None:
    calls: list[str] = []

    async def read(client: Client) -> Mapping[str, tuple[GpuReading, ...]]:
        calls.append("read")
        (node,) = (await client.list(NODES)).items
        return {node["metadata"]["name"]: (GpuReading(1, 0.5, power=300.0),), "empty": ()}

    source = ConsoleContribution(component="agent", gpu_metrics=GpuMetricsSource("agent", read))
    async with running_console(client, contributions=(source,)) as console:
        assert calls == []
        async with open_page(console) as page:
            row = await page.wait_until(lambda page: page.row("gpumetrics", "measured"))
            assert row["gpus"] == [{"index": 1, "utilisation": 0.5, "power": 300.0}]
            assert page.row("gpumetrics", "empty") is None
    assert calls == ["read"]


@pytest.mark.parametrize("failure", [ConnectionFailed("refused"), LookupError("a defect")])
async def test_failing_source_leaves_the_page_without_metrics(
    client: Client, failure: Exception
) -> None:
    async def read(_: Client) -> Mapping[str, tuple[GpuReading, ...]]:
        raise failure

    source = ConsoleContribution(component="agent", gpu_metrics=GpuMetricsSource("agent", read))
    async with (
        running_console(client, contributions=(source,)) as console,
        open_page(console) as page,
    ):
        await page.wait_for_tables()
        assert page.tables["gpumetrics"] == {}
