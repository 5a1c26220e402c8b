"""A cluster in the background: its status, and starts that are rejected while it runs."""

import json
import stat
from pathlib import Path

import pytest
import yaml

from kilonova.cli.up.components.selection import embeddable_components
from kilonova.component.registry import find_components
from tests.cli.command import Kilonova
from tests.harness.kubectl import Kubectl


def test_status_reports_address_and_object_counts(cluster_command: Kilonova, cluster: Path):
    status = cluster_command.status(cluster)
    assert status["running"] is True
    assert status["url"].startswith("https://127.0.0.1:")
    assert status["kubeconfig"] == str(cluster / "kubeconfig")
    assert status["nodes"] == {"total": 34, "ready": 34}
    assert status["pods"]["total"] == 0
    assert status["resourceVersion"] > 0


def test_status_reports_the_state_of_each_component(cluster_command: Kilonova, cluster: Path):
    status = cluster_command.status(cluster)
    left_out = {"process-node", "console"}
    names = {"process-node": "processNode"}
    assert status["components"] == {
        names.get(each.name, each.name): "running"
        if each.embedded is not None and each.embedded.by_default and each.name not in left_out
        else "off"
        for each in embeddable_components(find_components())
    }
    assert {"api", "controllers", "nodes", "operator", "scheduler"} <= status["components"].keys()
    assert status["problems"] == {}
    assert status["console"] is None
    table = cluster_command("status", "--data", cluster).out
    assert "components  api running, controllers running, nodes running, processNode off" in table


def test_status_output_formats_agree(cluster_command: Kilonova, cluster: Path):
    as_json = cluster_command.status(cluster)
    as_yaml = yaml.safe_load(cluster_command("status", "-o", "yaml", "--data", cluster).out)
    table = cluster_command("status", "--data", cluster)
    assert as_yaml | {"resourceVersion": 0} == as_json | {"resourceVersion": 0}
    assert as_json["url"] in table.out
    assert "34 (34 ready)" in table.out
    assert table.code == 0


def test_kubectl_sees_the_default_fleet(
    cluster_command: Kilonova, cluster: Path, kubectl_path: Path
):
    kubectl = Kubectl(kubectl_path, cluster / "kubeconfig", cluster_command.home)
    done = kubectl("get nodes --no-headers")
    assert done.code == 0, done.err
    assert len(done.out.splitlines()) == 34


def test_running_pod_is_counted(cluster_command: Kilonova, cluster: Path, kubectl_path: Path):
    kubectl = Kubectl(kubectl_path, cluster / "kubeconfig", cluster_command.home)
    assert kubectl("run hello --image=busybox").code == 0
    waited = kubectl("wait pod/hello --for=condition=Ready --timeout=30s")
    assert waited.code == 0, waited.err
    assert cluster_command.status(cluster)["pods"]["running"] == 1


@pytest.mark.parametrize("mode", [(), ("--detach",)])
def test_second_process_on_the_same_data_is_rejected(
    cluster_command: Kilonova, cluster: Path, mode: tuple[str, ...]
):
    done = cluster_command("up", *mode, "--port", "0", "--data", cluster)
    assert done.code == 1
    assert f"{cluster} is in use by process" in done.err
    assert f"kilonova down --data {cluster}" in done.err
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize("mode", [(), ("--detach",)])
def test_port_in_use_is_rejected(
    cluster_command: Kilonova, cluster: Path, tmp_path: Path, mode: tuple[str, ...]
):
    port = cluster_command.status(cluster)["url"].rpartition(":")[2]
    done = cluster_command("up", *mode, "--port", port, "--data", tmp_path / "other")
    assert done.code == 1
    assert f"port {port} of 127.0.0.1 cannot be used (Address already in use)" in done.err
    assert "--port N (0 takes a free one)" in done.err
    assert len(done.err.splitlines()) == 1


def test_only_the_owner_can_read_the_kubeconfig(cluster: Path):
    assert stat.S_IMODE((cluster / "kubeconfig").stat().st_mode) == 0o600


def test_status_shows_the_running_record(cluster_command: Kilonova, cluster: Path):
    record = json.loads((cluster / "running.json").read_bytes())
    status = cluster_command.status(cluster)
    assert {key: status[key] for key in record} == record
