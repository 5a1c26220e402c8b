"""deploy/monitoring: its rules by promtool, and with real Prometheus and Alertmanager the metrics
of simulated nodes, an alert, and each query of each dashboard."""

import asyncio
import json
import re
import shutil
import subprocess
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import yaml

from kilonova.cli.up.components.assembly import assemble_cluster
from kilonova.kube import Client
from kilonova.local.cluster import ClusterSettings
from tests.gpu.agent.agent_cluster import gpu_fleet, gpu_pod
from tests.gpu.controllers.manifests import workload
from tests.gpu.controllers.workload_cluster import WORKLOADS
from tests.gpu.exporter.monitoring_stack import RULES, MonitoringStack, run_monitoring
from tests.harness.server_process import find_free_port
from tests.local.embedded_cluster import NODES, PODS
from tools.monitoring import FOLDER, render_dashboards, render_rules

UNIT_TESTS = Path(__file__).parent / "gpu_rules_test.yaml"
_METRIC = re.compile(r"\b(?:kgwe_|kilonova[_:]|DCGM_|ALERTS)[\w:]*")
_MIG = {"nvidia.com/mig-1g.10gb": "1"}


def test_manifests_of_the_operator_have_the_rules_and_dashboards() -> None:
    hint = "run `python -m tools.monitoring`"
    assert (FOLDER / "operator" / "prometheusrule.yaml").read_text() == render_rules(), hint
    assert (FOLDER / "operator" / "dashboards.yaml").read_text() == render_dashboards(), hint


def test_every_alert_is_tested_and_says_what_it_means() -> None:
    tested = UNIT_TESTS.read_text()
    groups = yaml.safe_load(RULES.read_text())["groups"]
    alerts = [rule for group in groups for rule in group["rules"] if "alert" in rule]
    for each in alerts:
        assert f'"{each["alert"]}"' in tested or f" {each['alert']}\n" in tested
        assert set(each["annotations"]) == {"summary", "description"}
        assert each["labels"]["severity"] in {"critical", "warning", "info"}


def test_promtool_accepts_the_rules_and_their_unit_tests(
    prometheus_part: Path, tmp_path: Path
) -> None:
    for each in (RULES, UNIT_TESTS):
        shutil.copy(each, tmp_path)
    for command in (
        ["check", "rules", "--lint-fatal", "gpu.rules.yaml"],
        ["test", "rules", UNIT_TESTS.name],
    ):
        run_promtool(prometheus_part, tmp_path, *command)


def test_promtool_accepts_the_configuration(prometheus_part: Path, tmp_path: Path) -> None:
    shutil.copy(RULES, tmp_path)
    config = yaml.safe_load((FOLDER / "prometheus.yaml").read_text())
    for job in config["scrape_configs"]:
        # Debian's build lacks the discovery of pods.
        assert job.pop("kubernetes_sd_configs")[0]["role"] == "pod"
    (tmp_path / "prometheus.yaml").write_text(yaml.safe_dump(config))
    run_promtool(prometheus_part, tmp_path, "check", "config", "prometheus.yaml")


def test_dashboards_have_their_uids_and_no_two_panels_overlap() -> None:
    boards = {each.stem: json.loads(each.read_text()) for each in dashboards()}
    assert {board["uid"] for board in boards.values()} == {"kgwe-dashboard", "kilonova-gpu"}
    for board in boards.values():
        assert board["refresh"] == "30s"
        taken: set[tuple[int, int]] = set()
        for panel in board["panels"]:
            place = panel["gridPos"]
            cells = {
                (x, y)
                for x in range(place["x"], place["x"] + place["w"])
                for y in range(place["y"], place["y"] + place["h"])
            }
            assert not cells & taken, panel["title"]
            taken |= cells


async def test_injected_xid_fires_its_alert_and_every_dashboard_query_has_data(
    prometheus_part: Path, tmp_path: Path
) -> None:
    port = find_free_port()
    async with run_measured_cluster(port) as (client, control_plane):
        agent = f"127.0.0.1:{port}"
        with run_monitoring(prometheus_part, tmp_path, agent, control_plane) as stack:

            async def wait_for(what: str, check: Callable[[], bool]) -> None:
                for _ in range(300):
                    if await asyncio.to_thread(check):
                        return
                    await asyncio.sleep(0.2)
                raise AssertionError(f"not so after 60 s: {what}")

            await wait_for("a workload runs", lambda: count_active_workloads(stack) == 1)
            await wait_for(
                "all pods have utilisation",
                lambda: (
                    {"whole", "slice", "half-0", "half-1"}
                    <= pods_of(stack, "kilonova_gpu_pod_utilization_ratio > 0")
                ),
            )
            assert pods_of(stack, 'DCGM_FI_DEV_GPU_UTIL{vgpu=""}') == {"whole", "job-0", ""}
            used = pods_of(stack, "DCGM_FI_DEV_FB_USED > 0")
            assert used >= {"whole", "slice", "half-0", "half-1"}
            assert not stack.list_alerts()

            await annotate(client, {"sim.kilonova.dev/xid": "31@7"})
            await wait_for(
                "the alert of the XID",
                lambda: any(
                    (each["alertname"], each.get("xid"), each.get("gpu"))
                    == ("KilonovaGpuXid", "31", "7")
                    for each in stack.list_alerts()
                ),
            )
            await annotate(client, {"sim.kilonova.dev/xid": "79@6"})
            await wait_for(
                "the alert of the lost GPU",
                lambda: (
                    {"KilonovaGpuXidFatal"} <= {each["alertname"] for each in stack.list_alerts()}
                ),
            )
            await asyncio.to_thread(check_dashboards, stack)


def check_dashboards(stack: MonitoringStack) -> None:
    """Each query has a result, and only known metrics."""
    known = stack.list_metrics()
    empty: list[str] = []
    for board in dashboards():
        for panel in json.loads(board.read_text())["panels"]:
            for target in panel["targets"]:
                expression = target["expr"]
                for name in ("$node", "$namespace"):
                    expression = expression.replace(name, ".*")
                unknown = set(_METRIC.findall(expression)) - known
                assert not unknown, f"{board.stem}, {panel['title']}: no metric {unknown}"
                if not stack.query(expression):
                    empty.append(f"{board.stem}, {panel['title']}: {expression}")
    assert not empty


def count_active_workloads(stack: MonitoringStack) -> float:
    return sum(float(each["value"][1]) for each in stack.query("kgwe_active_workloads"))


def pods_of(stack: MonitoringStack, expression: str) -> set[str]:
    return {each["metric"].get("pod", "") for each in stack.query(expression)}


def dashboards() -> list[Path]:
    """Those of GPUs; those of services are tested with these."""
    return [FOLDER / "dashboards" / f"{name}.json" for name in ("kgwe-dashboard", "kilonova-gpu")]


def run_promtool(part: Path, folder: Path, *arguments: str) -> None:
    done = subprocess.run(
        [part / "promtool", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


async def annotate(client: Client, annotations: dict[str, str]) -> None:
    await client.patch(NODES, "gpu-0", {"metadata": {"annotations": annotations}})


@asynccontextmanager
async def run_measured_cluster(port: int) -> AsyncGenerator[tuple[Client, str]]:
    """One simulated node in real time, with pods on a whole GPU, on a MIG instance and on shares,
    and a workload. The metrics of its GPUs are on the port, those of scheduler and controllers at
    the address."""
    settings = ClusterSettings(port=None, data=None, fleet=gpu_fleet())
    cluster = assemble_cluster(
        ("scheduler", "gpu"), settings, flags={"gpu-metrics-port": port}
    ).cluster
    await cluster.start()
    try:
        await cluster.wait_nodes_registered()
        client = cluster.client("system:admin")
        half: Any = {"requests": {}, "annotations": {"gpu.kilonova.dev/milli": "500"}}
        pods = [gpu_pod("whole"), gpu_pod("slice", requests=_MIG)]
        pods += [gpu_pod(f"half-{number}", **half) for number in range(2)]
        for each in pods:
            await client.create(PODS, each, "default")
        await client.create(WORKLOADS, workload(gpus=1), "default")
        with serve_metrics(cluster.metrics.render) as address:
            yield client, address
    finally:
        await cluster.stop()


@contextmanager
def serve_metrics(render: Callable[[], bytes]) -> Generator[str]:
    """Serves metrics over HTTP at an address, as a health port does."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(render())

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
