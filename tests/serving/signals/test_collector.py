"""The collector on a cluster: gateways and Prometheus that listen on this machine."""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

import pytest

from kilonova.api.crds import load_definitions
from kilonova.api.serving import names
from kilonova.kube import Client
from kilonova.local.apiserver.bootstrap import install_crds
from kilonova.serving.settings import ServingSettings
from kilonova.serving.signals.assembly import Signals, build_signals
from tests.local.embedded_cluster import ACCOUNTS, LoopClock, find, run_cluster, wait_for_condition
from tests.serving.serving_cluster import (
    INFERENCE_SERVICES,
    PODS,
    build_context,
    inference_service,
    server_group,
)
from tests.serving.signals.test_service_poll import respond, scripted_server
from tests.workloads.workload_cluster import run_runnables

KEY = ("default", "web")
MODEL = frozenset({"model"})
INTERVAL = 0.05
LIMIT = {"load": {"inFlightPerReplica": 10}}
QUERY = {"load": {"query": "queue_length", "threshold": 5}}


@dataclass
class Machine:
    """What gateway and Prometheus say, and how often they were asked."""

    in_flight: int | str = 0
    value: str | None = "0"
    """None if Prometheus is away."""
    answer: str = ""
    """What Prometheus says instead."""
    gateway_reads: int = 0
    queries: int = 0
    overloads: list[frozenset[str]] = field(default_factory=list[frozenset[str]])

    def answer_stats(self, _: str) -> bytes:
        self.gateway_reads += 1
        labels = '{envoy_cluster_name="server/model"}'
        return respond(f"envoy_cluster_upstream_rq_active{labels} {self.in_flight}\n")

    def answer_query(self, _: str) -> bytes:
        self.queries += 1
        if self.answer:
            return respond(self.answer)
        if self.value is None:
            return b"HTTP/1.1 503 Unavailable\r\ncontent-length: 0\r\n\r\n"
        result = [{"metric": {}, "value": [1.0, self.value]}]
        data = {"resultType": "vector", "result": result}
        return respond(json.dumps({"status": "success", "data": data}))


@contextlib.asynccontextmanager
async def collecting(machine: Machine, **spec: Any) -> AsyncGenerator[tuple[Client, Signals]]:
    """A service with a ready gateway and a ready server, and the collector."""
    async with (
        scripted_server(machine.answer_stats) as gateway,
        scripted_server(machine.answer_query) as prometheus,
        run_cluster(scheduler=False) as cluster,
    ):
        client = cluster.client("user")
        await install_crds(client, load_definitions())
        await wait_for_condition(lambda: _can_create(client, spec))
        await wait_for_condition(lambda: find(client, ACCOUNTS, "default"))
        await create_pod(client, "web-gateway-0", role="gateway")
        await create_pod(client, "web-model-0", role="server", server="model", entry="true")
        settings = ServingSettings(
            prometheus_url=f"http://127.0.0.1:{prometheus}", scrape_interval=INTERVAL
        )
        context = build_context(cluster.client("serving"), LoopClock(), settings)
        signals = build_signals(context, stats_port=gateway)
        signals.overloaded.add_listener(
            lambda key: machine.overloads.append(signals.overloaded.overloaded(key))
        )
        async with run_runnables((*context.caches.runnables, *signals.runnables), ()):
            yield client, signals


async def _can_create(client: Client, spec: Any) -> bool:
    group = server_group(runtime="Custom", image="any", ports={"metrics": 0})
    with contextlib.suppress(Exception):
        body = inference_service("web", group, **spec)
        await client.create(INFERENCE_SERVICES, body, "default")
        return True
    return False


async def create_pod(client: Client, name: str, **labels: str) -> None:
    prefixed = {f"serving.kilonova.dev/{key}": value for key, value in labels.items()}
    metadata = {"name": name, "labels": {names.SERVICE: "web"} | prefixed}
    containers = [{"name": "any", "image": "any"}]
    await client.create(PODS, {"metadata": metadata, "spec": {"containers": containers}}, "default")
    status = {"podIP": "127.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}
    await client.patch(PODS, name, {"status": status}, "default", subresource="status")


async def wait_until(check: Any) -> None:
    async def holds() -> bool:
        return bool(check())

    await wait_for_condition(holds, within=20, every=0.01)


async def test_figures_come_as_soon_as_there_are_gateways_and_end_with_them() -> None:
    machine = Machine(in_flight=3)
    async with collecting(machine) as (client, signals):

        def in_flight() -> int | None:
            latest = signals.source.latest(KEY)
            return None if latest is None else latest.groups["model"].in_flight

        await wait_until(lambda: in_flight() == 3)
        await client.delete(PODS, "web-gateway-0", "default", grace_period_seconds=0)
        await wait_until(lambda: in_flight() is None)
        latest = signals.source.latest(KEY)
        assert latest is not None
        assert latest.problems == ("no gateway is ready",)
        await client.delete(INFERENCE_SERVICES, "web", "default")
        await wait_until(lambda: signals.source.latest(KEY) is None)


@pytest.mark.parametrize("garbage", ["1e308", "1e15", "-7", "NaN"])
async def test_figure_that_cannot_be_is_unknown_until_it_can(garbage: str) -> None:
    machine = Machine(in_flight=garbage)
    async with collecting(machine) as (_, signals):

        def in_flight() -> int | None:
            latest = signals.source.latest(KEY)
            return None if latest is None else latest.groups["model"].in_flight

        await wait_until(lambda: signals.source.latest(KEY) is not None)
        assert in_flight() is None
        machine.in_flight = 3
        await wait_until(lambda: in_flight() == 3)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ('{"resultType":"vector","result":[{}]}', "HTTP 200, not an answer of Prometheus"),
        (
            '{"resultType":"vector","result":[{"value":[1,"1e308"]},{"value":[1,"1e308"]}]}',
            "the sum of the values of the expression is not a finite number",
        ),
    ],
)
async def test_answer_that_has_no_value_is_a_problem(answer: str, problem: str) -> None:
    machine = Machine(answer=f'{{"status":"success","data":{answer}}}')
    async with collecting(machine, limits=QUERY) as (_, signals):

        def find_problem() -> str:
            latest = signals.source.latest(KEY)
            return "; ".join(latest.problems) if latest is not None else ""

        await wait_until(lambda: find_problem().endswith(problem))


async def test_endless_answer_of_prometheus_is_a_problem() -> None:
    machine = Machine(answer="x" * ((16 << 20) + 1))
    async with collecting(machine, limits=QUERY) as (_, signals):

        def find_problem() -> str:
            latest = signals.source.latest(KEY)
            return "; ".join(latest.problems) if latest is not None else ""

        await wait_until(lambda: find_problem().endswith("is larger than 16777216 bytes"))


async def test_service_at_rest_is_read_less_often() -> None:
    machine = Machine(in_flight=1)
    async with collecting(machine) as (_, signals):

        async def count_reads(seconds: float) -> int:
            before = machine.gateway_reads
            await asyncio.sleep(seconds)
            return machine.gateway_reads - before

        await wait_until(lambda: signals.source.latest(KEY) is not None)
        busy = await count_reads(1.0)
        machine.in_flight = 0
        await asyncio.sleep(20 * INTERVAL)
        assert await count_reads(1.0) < busy / 2


async def test_group_is_overloaded_by_requests_and_released_below_the_limit() -> None:
    machine = Machine(in_flight=11)
    async with collecting(machine, limits=LIMIT) as (_, signals):
        await wait_until(lambda: signals.overloaded.overloaded(KEY) == MODEL)
        machine.in_flight = 9
        await asyncio.sleep(6 * INTERVAL)
        assert signals.overloaded.overloaded(KEY) == MODEL
        machine.in_flight = 8
        await wait_until(lambda: not signals.overloaded.overloaded(KEY))
        assert machine.overloads == [MODEL, frozenset()]


@pytest.mark.parametrize("value", ["1e-05", "NaN", "nil", "-3"])
async def test_query_above_its_threshold_overloads_and_a_strange_value_never_does(
    value: str,
) -> None:
    machine = Machine(value="7")
    async with collecting(machine, limits=QUERY) as (_, signals):
        await wait_until(lambda: signals.overloaded.overloaded(KEY) == MODEL)
        machine.value = value
        await wait_until(lambda: not signals.overloaded.overloaded(KEY))


async def test_prometheus_that_is_away_is_a_problem_and_refuses_nothing() -> None:
    machine = Machine(value="7")
    async with collecting(machine, limits=QUERY) as (_, signals):
        await wait_until(lambda: signals.overloaded.overloaded(KEY) == MODEL)
        machine.value = None
        latest = None

        def is_stated() -> bool:
            nonlocal latest
            latest = signals.source.latest(KEY)
            return latest is not None and bool(latest.problems)

        await wait_until(is_stated)
        assert latest is not None
        assert latest.problems[0].startswith("limits.load: Prometheus http://127.0.0.1:")
        await wait_until(lambda: not signals.overloaded.overloaded(KEY))
