"""Prometheus and Alertmanager of the real parts start and answer; their tools check files."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.http_probe import fetch, is_serving
from tests.harness.server_process import ServerProcess, find_free_port

RULES = """
groups:
- name: rules
  rules:
  - alert: Always
    expr: vector(1)
"""
ROUTE = """
route: {receiver: nobody}
receivers: [{name: nobody}]
"""


@pytest.fixture
def prometheus(prometheus_part: Path, tmp_path: Path) -> Iterator[str]:
    (tmp_path / "rules.yml").write_text(RULES)
    config = tmp_path / "prometheus.yml"
    config.write_text("rule_files: [rules.yml]\n")
    address = f"127.0.0.1:{find_free_port()}"
    process = ServerProcess(
        "prometheus",
        [
            prometheus_part / "prometheus",
            f"--config.file={config}",
            f"--storage.tsdb.path={tmp_path / 'data'}",
            f"--web.listen-address={address}",
        ],
        tmp_path / "prometheus.log",
    )
    process.wait_until(lambda: is_serving(f"http://{address}/-/ready"))
    yield f"http://{address}"
    process.stop()


@pytest.fixture
def alertmanager(prometheus_part: Path, tmp_path: Path) -> Iterator[str]:
    config = tmp_path / "alertmanager.yml"
    config.write_text(ROUTE)
    address = f"127.0.0.1:{find_free_port()}"
    process = ServerProcess(
        "alertmanager",
        [
            prometheus_part / "alertmanager",
            f"--config.file={config}",
            f"--storage.path={tmp_path / 'data'}",
            f"--web.listen-address={address}",
            "--cluster.listen-address=",
        ],
        tmp_path / "alertmanager.log",
    )
    process.wait_until(lambda: is_serving(f"http://{address}/-/ready"))
    yield f"http://{address}"
    process.stop()


def test_prometheus_answers_a_query(prometheus: str) -> None:
    status, answer = fetch(f"{prometheus}/api/v1/query?query=1%2B1")
    assert status == 200
    assert json.loads(answer)["data"]["result"][1] == "2"


@pytest.mark.parametrize(
    ("rules", "code", "words"),
    [(RULES, 0, "SUCCESS: 1 rules found"), (RULES.replace("vector(1)", "vector("), 1, "FAILED")],
    ids=["valid", "invalid"],
)
def test_promtool_checks_rules(
    prometheus_part: Path, tmp_path: Path, rules: str, code: int, words: str
) -> None:
    path = tmp_path / "rules.yml"
    path.write_text(rules)
    done = run_tool(prometheus_part / "promtool", "check", "rules", str(path))
    assert done.returncode == code
    assert words in done.stdout + done.stderr


def test_alertmanager_has_the_alert_that_amtool_adds(
    prometheus_part: Path, alertmanager: str
) -> None:
    url = f"--alertmanager.url={alertmanager}"
    done = run_tool(prometheus_part / "amtool", url, "alert", "add", "alertname=Broken")
    assert done.returncode == 0, done.stderr
    status, alerts = fetch(f"{alertmanager}/api/v2/alerts")
    assert status == 200
    assert [alert["labels"] for alert in json.loads(alerts)] == [{"alertname": "Broken"}]


def run_tool(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
