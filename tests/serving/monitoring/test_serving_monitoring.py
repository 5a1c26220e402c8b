"""deploy/monitoring for services: alerts by promtool, and with a real Prometheus and a real Envoy
each query of our dashboards, and of those of SuperSONIC."""

import asyncio
import json
import shutil
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import yaml

from tests.gpu.exporter.test_monitoring import run_promtool
from tests.harness.http_probe import fetch, is_serving
from tests.harness.server_process import ServerProcess, find_free_port
from tests.serving.gateway.support.clients import open_channel, try_call
from tests.serving.gateway.support.envoy_gateway import run_gateway
from tests.serving.gateway.support.services import (
    build_gateway,
    build_group,
    build_spec,
    build_state,
)
from tests.serving.gateway.support.upstreams import run_upstream
from tests.serving.monitoring.server_metrics import serve_server_metrics
from tools.monitoring import FOLDER, render_files

RULES = FOLDER / "serving.rules.yaml"
UNIT_TESTS = Path(__file__).parent / "serving_rules_test.yaml"
BOARDS = ("serving", "supersonic")

THEIRS = {
    "number of servers": "count by(release)(nv_gpu_utilization{%s})",
    "number of servers, newer": "sum by(release)"
    '(envoy_cluster_membership_total{envoy_cluster_name="triton_grpc_service",%s})',
    **{
        f"latency, {stage}": f"sum by (release) (rate(nv_inference_{stage}_duration_us{{%s}}[15s]))"
        " / sum by (release) ((rate(nv_inference_exec_count{%s}[15s]) * 1000) + 0.001)"
        for stage in ("compute_infer", "queue", "compute_input", "compute_output")
    },
    "latency at the proxy": "sum(rate(envoy_http_downstream_rq_time_sum"
    '{envoy_http_conn_manager_prefix="ingress_grpc",%s}[15s])'
    " / rate(envoy_http_downstream_rq_time_count"
    '{envoy_http_conn_manager_prefix="ingress_grpc",%s}[15s])) by (release)',
    "inferences": "sum by (release) (rate(nv_inference_count{%s}[15s]))",
    "inferences by pod": "sum by (pod) (rate(nv_inference_count{%s}[15s]))",
    "inferences by model": "sum by (model) (rate(nv_inference_count{%s}[15s]))",
    "GPU utilization": "sum by (pod) (nv_gpu_utilization{%s})",
    "GPU power": "sum by (pod) (nv_gpu_power_usage{%s}/nv_gpu_power_limit{%s})",
    "GPU memory": "sum by (pod) (nv_gpu_memory_used_bytes{%s}/nv_gpu_memory_total_bytes{%s})",
}
"""What SuperSONIC's dashboards ask for (specification §1.5)."""


def test_written_files_are_fresh() -> None:
    for path, text in render_files().items():
        assert (FOLDER / path).read_text() == text, f"{path}: run `python -m tools.monitoring`"


def test_every_alert_is_tested_and_says_what_it_means() -> None:
    tested = UNIT_TESTS.read_text()
    rules = [
        rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]
    ]
    for each in rules:
        assert f"alertname: {each['alert']}\n" in tested
        assert set(each["annotations"]) == {"summary", "description"}
        assert each["labels"]["severity"] in {"critical", "warning", "info"}


def test_promtool_accepts_the_rules_and_their_unit_tests(
    prometheus_part: Path, tmp_path: Path
) -> None:
    for each in (RULES, UNIT_TESTS):
        shutil.copy(each, tmp_path)
    run_promtool(prometheus_part, tmp_path, "check", "rules", "--lint-fatal", RULES.name)
    run_promtool(prometheus_part, tmp_path, "test", "rules", UNIT_TESTS.name)


@pytest.mark.parametrize("name", [*BOARDS, "supersonic-traces"])
def test_no_two_panels_overlap(name: str) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in load_board(name)["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells


class Prometheus:
    """A running one."""

    def __init__(self, url: str) -> None:
        self._url = url

    def query(self, expression: str) -> list[Any]:
        """The series of an instant query; AssertionError for an invalid one."""
        status, body = fetch(f"{self._url}/api/v1/query?{urlencode({'query': expression})}")
        answer = json.loads(body)
        assert status == 200, f"{expression}: {answer.get('error')}"
        return answer["data"]["result"]

    def get_value(self, expression: str) -> float:
        (found,) = self.query(expression)
        return float(found["value"][1])


@contextmanager
def run_prometheus(part: Path, folder: Path, jobs: list[Any]) -> Generator[Prometheus]:
    address = f"127.0.0.1:{find_free_port()}"
    config = {
        "global": {"scrape_interval": "500ms", "evaluation_interval": "1s"},
        "scrape_configs": jobs,
    }
    (folder / "prometheus.yml").write_text(json.dumps(config))
    process = ServerProcess(
        "prometheus",
        [
            part / "prometheus",
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'series'}",
            f"--web.listen-address={address}",
        ],
        folder / "prometheus.log",
    )
    try:
        process.wait_until(lambda: is_serving(f"http://{address}/-/ready"))
        yield Prometheus(f"http://{address}")
    finally:
        process.stop()


def build_jobs(gateway: str, servers: str) -> list[Any]:
    """The jobs of the file, with pods that need no discovery: Debian's build lacks it."""
    jobs = {
        each["job_name"]: each
        for each in yaml.safe_load((FOLDER / "serving.prometheus.yaml").read_text())[
            "scrape_configs"
        ]
    }
    for each in jobs.values():
        assert each.pop("kubernetes_sd_configs") == [{"role": "pod"}]
        each["scrape_interval"] = "500ms"
    gateways = [build_pod(gateway, release, "gateway", "stats") for release in ("gpu", "cpu")]
    jobs["kilonova-serving-gateways"]["static_configs"] = gateways
    # Ports that are not for metrics, and other pods, are left out.
    ignored = [
        build_pod("127.0.0.1:1", "gpu", "server", "http"),
        build_pod("127.0.0.1:1", "gpu", "", "metrics"),
    ]
    pods = [build_pod(servers, kind, "server", "metrics", kind) for kind in ("gpu", "cpu", "llm")]
    jobs["kilonova-serving-servers"]["static_configs"] = [*pods, *ignored]
    jobs["kilonova-serving"]["static_configs"] = []
    return list(jobs.values())


def build_pod(address: str, release: str, role: str, port: str, path: str = "") -> Any:
    """A pod as discovery describes it."""
    meta = "__meta_kubernetes_pod"
    labels = {
        f"{meta}_name": f"{release}-{role}-0",
        "__meta_kubernetes_namespace": "cms",
        f"{meta}_container_port_name": port,
        f"{meta}_label_serving_kilonova_dev_role": role,
        f"{meta}_label_serving_kilonova_dev_inference_service": release,
        f"{meta}_label_serving_kilonova_dev_server": "triton" if role == "server" else "",
        f"{meta}_label_app_kubernetes_io_part_of": "supersonic",
    }
    return {
        "targets": [address],
        "labels": labels | ({"__metrics_path__": f"/{path}"} if path else {}),
    }


@asynccontextmanager
async def run_traffic(part: Path, folder: Path) -> AsyncGenerator[Prometheus]:
    """A gateway with traffic and one server, and a Prometheus that reads both."""
    gateway = build_gateway()
    spec = build_spec(build_group("triton"), gateway=gateway)
    with serve_server_metrics() as servers:
        async with run_upstream("triton-0") as upstream:
            state = build_state([upstream.endpoint], group="triton")
            async with (
                run_gateway(spec, state) as envoy,
                open_channel(gateway.grpc_port) as channel,
            ):
                jobs = build_jobs(f"127.0.0.1:{envoy.stats_port}", servers)
                with run_prometheus(part, folder, jobs) as prometheus:
                    calls = asyncio.create_task(call_forever(channel))
                    try:
                        yield prometheus
                    finally:
                        calls.cancel()


async def call_forever(channel: Any) -> None:
    while True:
        await try_call(channel)
        await asyncio.sleep(0.02)


async def test_every_query_of_the_dashboards_has_data(
    prometheus_part: Path, tmp_path: Path
) -> None:
    selected = 'release=~"gpu"'
    queries = {
        **{f"SuperSONIC: {name}": text.replace("%s", selected) for name, text in THEIRS.items()},
        **{
            f"{name}: {panel['title']}, {target['refId']}": (
                target["expr"].replace("$release", ".*").replace("$namespace", "cms")
            )
            for name in BOARDS
            for panel in load_board(name)["panels"]
            for target in panel["targets"]
        },
    }
    async with run_traffic(prometheus_part, tmp_path) as prometheus:

        async def wait_until_complete() -> dict[str, str]:
            missing = queries
            for _ in range(150):
                missing = {
                    name: text
                    for name, text in missing.items()
                    if not await asyncio.to_thread(prometheus.query, text)
                }
                if not missing:
                    break
                await asyncio.sleep(0.2)
            return missing

        assert not await wait_until_complete()
        servers = queries["supersonic: Number of servers, A"]
        for release in ("gpu", "cpu"):
            found = f"{servers} == 1 and on (release) up{{release='{release}'}} == 1"
            assert prometheus.get_value(found) == 1
        assert not prometheus.query('nv_gpu_utilization{release="cpu"}')
        (server,) = prometheus.query('nv_gpu_utilization{app="supersonic"}')
        labels = server["metric"]
        assert (labels["release"], labels["namespace"], labels["pod"], labels["server"]) == (
            "gpu",
            "cms",
            "gpu-server-0",
            "triton",
        )


def load_board(name: str) -> Any:
    return json.loads((FOLDER / "dashboards" / f"{name}.json").read_text())
