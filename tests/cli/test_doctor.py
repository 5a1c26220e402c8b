"""`kilonova doctor` where it is run: without a cluster, and on both servers."""

import asyncio
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from kilonova.cli.install import install_definitions
from kilonova.kube.admission.configuration import CONFIGURATIONS
from kilonova.kube.resource import plain
from tests.cli.command import Kilonova
from tests.conftest import Api

LEASES = plain("coordination.k8s.io", "v1", "leases", "Lease", True)
NODES = plain("", "v1", "nodes", "Node", False)
NAMESPACES = plain("", "v1", "namespaces", "Namespace", False)


def _levels(report: dict[str, Any]) -> dict[str, str]:
    return {each["what"]: each["level"] for each in report["findings"]}


def test_without_a_cluster_it_says_how_to_get_one(kilonova: Kilonova):
    done = kilonova("doctor")
    assert done.code == 0, done.out
    line = next(line for line in done.out.splitlines() if "kubeconfig:" in line)
    assert line.startswith("warning  kubeconfig: no cluster is meant")
    assert "→ get a cluster with `kilonova up --detach --wait`" in line
    assert not (kilonova.home / ".local").exists()


@pytest.mark.parametrize(("variable", "painted"), [("CLICOLOR_FORCE", True), ("NO_COLOR", False)])
def test_colours_are_as_in_lists(kilonova: Kilonova, variable: str, painted: bool):
    environment = kilonova.environment() | {variable: "1"}
    done = subprocess.run(kilonova.command("doctor"), env=environment, capture_output=True)
    assert (b"\x1b[33mwarning" in done.stdout) is painted


def test_a_server_that_is_away_is_a_problem(kilonova: Kilonova):
    done = kilonova("doctor", "--kubeconfig", _kubeconfig(kilonova.home / "config"))
    assert done.code == 1
    assert "problem  cluster: does not answer" in done.out
    assert done.err == ""


def _kubeconfig(file: Path) -> Path:
    """One that leads to where nobody answers."""
    cluster = {"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}
    context = {"name": "x", "context": {"cluster": "c"}}
    content = {"clusters": [cluster], "contexts": [context], "current-context": "x"}
    file.write_text(yaml.safe_dump({"kind": "Config", **content}))
    return file


@pytest.mark.parametrize("words", [(), ("--context", "x")], ids=["any", "one context"])
def test_a_kubeconfig_that_is_not_there_is_a_problem(
    kilonova: Kilonova, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
):
    environment = kilonova.environment() | {"KUBECONFIG": "/nowhere"}
    monkeypatch.setattr(kilonova, "environment", lambda: environment)
    done = kilonova("doctor", *words)
    assert done.code == 1, done.out
    [line] = [line for line in done.out.splitlines() if "kubeconfig:" in line]
    assert line.startswith("problem  kubeconfig: no cluster is meant: KUBECONFIG names what is not")
    assert "/nowhere → let KUBECONFIG name a file that is" in line


def test_a_kubeconfig_that_is_not_there_among_others_is_a_warning(
    kilonova: Kilonova, monkeypatch: pytest.MonkeyPatch
):
    config = _kubeconfig(kilonova.home / "config")
    environment = kilonova.environment() | {"KUBECONFIG": f"/nowhere:{config}"}
    monkeypatch.setattr(kilonova, "environment", lambda: environment)
    missing, leads = [
        line for line in kilonova("doctor").out.splitlines() if " kubeconfig:" in line
    ]
    assert missing.startswith("warning  kubeconfig: KUBECONFIG names what is not there")
    assert "/nowhere →" in missing
    assert leads.startswith("ok       kubeconfig: context x leads to https://127.0.0.1:1")
    assert "/nowhere" not in kilonova("doctor", "--kubeconfig", config).out


def test_a_folder_that_others_read_is_a_problem(kilonova: Kilonova, tmp_path: Path):
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    done = kilonova("doctor", "--data", data)
    assert done.code == 1
    assert f"→ chmod 700 {data}" in done.out


async def test_a_cluster_is_looked_at_on_any_server(api: Api, kilonova: Kilonova):
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
        assert levels["user"] == levels["rights"] == levels["kinds"] == "ok", found
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
        await client.create(CONFIGURATIONS[1], body)
        try:
            found = await report()
        finally:
            await client.delete(CONFIGURATIONS[1], api.namespace)
        assert not found["healthy"]
        dead = f"webhook {api.namespace}/dead.example.com"
        assert _levels(found)[dead] == "problem"


@pytest.mark.parametrize("held", [True, False])
async def test_a_leader_that_is_silent_is_a_problem(api: Api, kilonova: Kilonova, held: bool):
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
    assert levels["operator"] == "warning", "none has led"


async def test_nodes_are_counted_also_those_without_a_lease(api: Api, kilonova: Kilonova):
    async with api.client() as client:
        await client.create(NODES, {"metadata": {"name": api.namespace}})
        try:
            words = ("doctor", "-o", "json", "--kubeconfig", str(api.access.kubeconfig))
            done = await asyncio.to_thread(kilonova, *words)
        finally:
            await client.delete(NODES, api.namespace)
    [found] = [each for each in json.loads(done.out)["findings"] if each["what"] == "nodes"]
    assert re.search(r"\d of \d+ have a fresh Lease; .*without any Lease: ", found["found"]), found


def test_the_parts_of_a_cluster_are_told_one_by_one(kilonova: Kilonova, tmp_path: Path):
    data = tmp_path / "data"
    assert kilonova.detach(data, "--no-demo", "--no-scheduler").code == 0
    done = kilonova("doctor", "--kubeconfig", data / "kubeconfig")
    assert "ok       operator: is running, inside of `kilonova up`\n" in done.out
    line = next(line for line in done.out.splitlines() if "scheduler:" in line)
    assert line.startswith("warning  scheduler: left out of this `kilonova up` (--no-scheduler)")
    assert "→ run `kilonova run scheduler`, or start the cluster without --no-scheduler" in line
