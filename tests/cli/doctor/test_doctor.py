"""`kilonova doctor` without a cluster, and on both servers."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from kilonova.cli.install import install_definitions
from kilonova.kube.admission.ca_bundle import WEBHOOK_CONFIGURATIONS
from kilonova.kube.client.resource import unstructured_resource
from tests.cli.command import Kilonova
from tests.conftest import Api

LEASES = unstructured_resource("coordination.k8s.io", "v1", "leases", "Lease", True)
NODES = unstructured_resource("", "v1", "nodes", "Node", False)
NAMESPACES = unstructured_resource("", "v1", "namespaces", "Namespace", False)


def _levels(report: dict[str, Any]) -> dict[str, str]:
    return {each["check"]: each["level"] for each in report["findings"]}


def test_doctor_without_a_cluster_suggests_how_to_get_one(kilonova: Kilonova):
    done = kilonova("doctor")
    assert done.code == 0, done.out
    line = next(line for line in done.out.splitlines() if "kubeconfig:" in line)
    assert line.startswith("warning  kubeconfig: no cluster is configured")
    assert "→ start a cluster with `kilonova up --detach --wait`" in line
    assert not (kilonova.home / ".local").exists()


@pytest.mark.parametrize(("variable", "painted"), [("CLICOLOR_FORCE", True), ("NO_COLOR", False)])
def test_findings_are_coloured_like_lists(kilonova: Kilonova, variable: str, painted: bool):
    done = kilonova("doctor", variables={variable: "1"})
    assert ("\x1b[33mwarning" in done.out) is painted


def test_unreachable_server_is_a_problem(kilonova: Kilonova):
    done = kilonova("doctor", "--kubeconfig", _kubeconfig(kilonova.home / "config"))
    assert done.code == 1
    assert "problem  cluster: does not answer" in done.out
    assert done.err == ""


def _kubeconfig(file: Path) -> Path:
    """A kubeconfig with a server that does not answer."""
    cluster = {"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}
    context = {"name": "x", "context": {"cluster": "c"}}
    content = {"clusters": [cluster], "contexts": [context], "current-context": "x"}
    file.write_text(yaml.safe_dump({"kind": "Config", **content}))
    return file


@pytest.mark.parametrize("words", [(), ("--context", "x")], ids=["any", "one context"])
def test_missing_kubeconfig_is_a_problem(
    kilonova: Kilonova, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
):
    environment = kilonova.environment() | {"KUBECONFIG": "/nowhere"}
    monkeypatch.setattr(kilonova, "environment", lambda: environment)
    done = kilonova("doctor", *words)
    assert done.code == 1, done.out
    [line] = [line for line in done.out.splitlines() if "kubeconfig:" in line]
    assert line.startswith("problem  kubeconfig: no cluster is configured: KUBECONFIG names files")
    assert "/nowhere → set KUBECONFIG to a file that exists" in line


def test_missing_kubeconfig_among_others_is_a_warning(
    kilonova: Kilonova, monkeypatch: pytest.MonkeyPatch
):
    config = _kubeconfig(kilonova.home / "config")
    environment = kilonova.environment() | {"KUBECONFIG": f"/nowhere:{config}"}
    monkeypatch.setattr(kilonova, "environment", lambda: environment)
    missing, target = [
        line for line in kilonova("doctor").out.splitlines() if " kubeconfig:" in line
    ]
    assert missing.startswith("warning  kubeconfig: KUBECONFIG names files that do not exist")
    assert "/nowhere →" in missing
    assert target.startswith("ok       kubeconfig: context x, server https://127.0.0.1:1")
    assert "/nowhere" not in kilonova("doctor", "--kubeconfig", config).out


def test_data_directory_readable_by_others_is_a_problem(kilonova: Kilonova, tmp_path: Path):
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    done = kilonova("doctor", "--data", data)
    assert done.code == 1
    assert f"→ chmod 700 {data}" in done.out


async def test_cluster_is_checked_on_both_servers(api: Api, kilonova: Kilonova):
    async def report() -> dict[str, Any]:
        words = ("doctor", "-o", "json", "--kubeconfig", str(api.access.kubeconfig))
        done = await asyncio.to_thread(kilonova, *words)
        found = json.loads(done.out)
        assert done.code == (0 if found["healthy"] else 1)
        return found

    async with api.client() as client:
        await install_definitions(client)
        found = await report()
        levels = _levels(found)
        assert levels["kubeconfig"] == levels["server"] == levels["clock"] == "ok", found
        assert levels["user"] == levels["permissions"] == levels["CRDs"] == "ok", found
        webhook = {
            "name": "dead.example.com",
            "clientConfig": {"service": {"namespace": "default", "name": "nobody"}},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "rules": [
                {
                    "apiGroups": ["example.com"],
                    "apiVersions": ["*"],
                    "operations": ["CREATE"],
                    "resources": ["nothings"],
                }
            ],
        }
        body = {"metadata": {"name": api.namespace}, "webhooks": [webhook]}
        await client.create(WEBHOOK_CONFIGURATIONS[1], body)
        try:
            found = await report()
        finally:
            await client.delete(WEBHOOK_CONFIGURATIONS[1], api.namespace)
        assert not found["healthy"]
        dead = f"webhook {api.namespace}/dead.example.com"
        assert _levels(found)[dead] == "problem"


@pytest.mark.parametrize("held", [True, False])
async def test_stale_leader_lease_is_a_problem(api: Api, kilonova: Kilonova, held: bool):
    body = {
        "metadata": {"name": "kilonova-scheduler"},
        "spec": {
            "holderIdentity": "pod-1" if held else "",
            "leaseDurationSeconds": 15,
            "renewTime": "2026-01-01T00:00:00.000000Z",
        },
    }
    async with api.client() as client:
        await client.apply(NAMESPACES, "kilonova-system", {})
        await client.create(LEASES, body, "kilonova-system")
        words = ("doctor", "-o", "json", "--kubeconfig", str(api.access.kubeconfig))
        done = await asyncio.to_thread(kilonova, *words)
        await client.delete(LEASES, "kilonova-scheduler", "kilonova-system")
    levels = _levels(json.loads(done.out))
    assert levels["scheduler"] == ("problem" if held else "warning")
    assert levels["operator"] == "warning", "there is no Lease"


async def test_nodes_are_counted_also_those_without_a_lease(api: Api, kilonova: Kilonova):
    async with api.client() as client:
        await client.create(NODES, {"metadata": {"name": api.namespace}})
        try:
            words = ("doctor", "-o", "json", "--kubeconfig", str(api.access.kubeconfig))
            done = await asyncio.to_thread(kilonova, *words)
        finally:
            await client.delete(NODES, api.namespace)
    [found] = [each for each in json.loads(done.out)["findings"] if each["check"] == "nodes"]
    assert re.search(r"\d of \d+ have a fresh Lease; .*without a Lease: ", found["message"]), found


def test_each_component_has_its_own_finding(kilonova: Kilonova, tmp_path: Path):
    data = tmp_path / "data"
    assert kilonova.detach(data, "--no-demo", "--no-scheduler").code == 0
    done = kilonova("doctor", "--kubeconfig", data / "kubeconfig")
    assert "ok       operator: is running, inside of `kilonova up`\n" in done.out
    line = next(line for line in done.out.splitlines() if "scheduler:" in line)
    assert line.startswith("warning  scheduler: disabled in this `kilonova up` (--no-scheduler)")
    assert "→ run `kilonova run scheduler`, or start the cluster without --no-scheduler" in line
