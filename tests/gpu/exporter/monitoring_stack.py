"""Prometheus and Alertmanager with the rules of deploy/monitoring."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.harness.http_probe import fetch, is_serving
from tests.harness.server_process import ServerProcess, find_free_port

RULES = Path(__file__).parents[3] / "deploy" / "monitoring" / "gpu.rules.yaml"
_ROUTE = """
route: {receiver: nobody, group_wait: 0s, group_interval: 1s}
receivers: [{name: nobody}]
"""


@dataclass(frozen=True)
class MonitoringStack:
    """A running Prometheus, and the Alertmanager that it sends to."""

    prometheus: str
    alertmanager: str

    def query(self, expression: str) -> list[Any]:
        """The series of an instant query; AssertionError for an invalid one."""
        url = f"{self.prometheus}/api/v1/query?{urlencode({'query': expression})}"
        status, body = fetch(url)
        answer = json.loads(body)
        assert status == 200, f"{expression}: {answer.get('error')}"
        return answer["data"]["result"]

    def list_metrics(self) -> set[str]:
        """The names of all metrics."""
        _, body = fetch(f"{self.prometheus}/api/v1/label/__name__/values")
        return set(json.loads(body)["data"])

    def list_alerts(self) -> list[dict[str, str]]:
        """The labels of what Alertmanager has."""
        _, body = fetch(f"{self.alertmanager}/api/v2/alerts")
        return [each["labels"] for each in json.loads(body)]


@contextmanager
def run_monitoring(
    part: Path, folder: Path, agent: str, control_plane: str
) -> Generator[MonitoringStack]:
    """Scrapes the addresses of an agent, and of scheduler and operator, each second."""
    alerts = f"127.0.0.1:{find_free_port()}"
    metrics = f"127.0.0.1:{find_free_port()}"
    (folder / "alertmanager.yml").write_text(_ROUTE)
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(RULES)],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alerts]}]}]},
        "scrape_configs": [
            {
                "job_name": "kilonova-agent",
                "honor_labels": True,
                "static_configs": [{"targets": [agent]}],
            },
            {
                "job_name": "kilonova-control-plane",
                "static_configs": [{"targets": [control_plane]}],
            },
        ],
    }
    (folder / "prometheus.yml").write_text(json.dumps(config))
    alertmanager = ServerProcess(
        "alertmanager",
        [
            part / "alertmanager",
            f"--config.file={folder / 'alertmanager.yml'}",
            f"--storage.path={folder / 'alerts'}",
            f"--web.listen-address={alerts}",
            "--cluster.listen-address=",
        ],
        folder / "alertmanager.log",
    )
    prometheus = ServerProcess(
        "prometheus",
        [
            part / "prometheus",
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'series'}",
            f"--web.listen-address={metrics}",
        ],
        folder / "prometheus.log",
    )
    try:
        alertmanager.wait_until(lambda: is_serving(f"http://{alerts}/-/ready"))
        prometheus.wait_until(lambda: is_serving(f"http://{metrics}/-/ready"))
        yield MonitoringStack(f"http://{metrics}", f"http://{alerts}")
    finally:
        prometheus.stop()
        alertmanager.stop()
