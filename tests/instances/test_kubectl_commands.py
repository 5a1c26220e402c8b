"""The kubectl commands that users of Supernova and Nebula know, on both servers.

An instance of 108 agents is in the cluster of the context `dal1-prod1`, the objects of a fleet are
in that of `msp2-prod1`.
"""

import asyncio
import os
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from kilonova.kube import Client
from tests.conftest import Api
from tests.fleet.support.fleet_lab import DEPLOYMENTS, RELEASES
from tests.harness.console_scripts import write_console_scripts
from tests.harness.kubectl import Kubectl
from tests.instances.controllers.instance.test_instances_on_servers import (
    build_template,
    instance_servers,
)
from tests.instances.instance_cluster import EVENTS, INSTANCES, instance
from tests.local.embedded_cluster import wait_for_condition

NAME = "example-llama-32-90b-vision-2"
AGENTS = 108
NODES = 14
"""With 112 accelerators."""
COLUMNS = ["NAMESPACE", "NAME", "MODEL", "TARGETAGENTS", "READYAGENTS", "PENDINGAGENTS"]

Run = Callable[[str], list[str]]
"""Runs a command line, and returns the lines that it prints."""


@pytest.fixture
def run(kubectl_path: Path, api: Api, tmp_path: Path) -> Run:
    """kubectl, with its plug-ins and a context for each cluster; both are the same server."""
    config = yaml.safe_load(api.access.kubeconfig.read_text())
    (known,) = config["contexts"]
    for name in ("dal1-prod1", "msp2-prod1"):
        config["contexts"].append({**known, "name": name})
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(config))
    environment = Kubectl(kubectl_path, kubeconfig, tmp_path).build_environment(
        {
            # A plug-in does not get the flags that stand before its name.
            "KUBECONFIG": str(kubeconfig),
            "PATH": f"{write_console_scripts(tmp_path / 'bin')}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        }
    )

    def run_line(command: str) -> list[str]:
        words = [str(kubectl_path), *shlex.split(command)]
        done = subprocess.run(
            words, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run_line


async def test_commands_print_what_their_users_expect(api: Api, run: Run) -> None:
    async with instance_servers(api, NODES) as client:
        await create_objects(client, api.namespace)
        await wait_until_ready(client, api.namespace, recreated=0)
        await client.evict(f"{NAME}-agent-7", api.namespace)
        await wait_until_ready(client, api.namespace, recreated=1)
        await wait_for_event(client, api.namespace, "AgentPodsRecreated")
        await asyncio.to_thread(check_instance_commands, run, api.namespace)
        await asyncio.to_thread(check_events, run, api.namespace)
        await asyncio.to_thread(check_fleet_commands, run, api.namespace)
        await client.delete(INSTANCES, NAME, api.namespace)


async def create_objects(client: Client, namespace: str) -> None:
    template = build_template(namespace)
    body = instance(NAME, agents=AGENTS, gpus=1, agent=template, conductor=template)
    await client.create(INSTANCES, body, namespace)
    release = {"model": "llama32-90b", "build": "b-7", "targetAgents": AGENTS}
    await client.create(RELEASES, {"metadata": {"name": "llama-7"}, "spec": release}, namespace)
    deployment = {"release": "llama-7", "replicas": 6}
    await client.create(DEPLOYMENTS, {"metadata": {"name": "llama"}, "spec": deployment}, namespace)


async def wait_until_ready(client: Client, namespace: str, *, recreated: int) -> None:
    status: Any = {}

    async def is_ready() -> bool:
        nonlocal status
        status = (await client.get(INSTANCES, NAME, namespace)).get("status", {})
        repairs = status.get("repairs", {}).get("recreated", 0)
        ready = (status.get("phase"), status.get("readyAgents")) == ("Ready", AGENTS)
        return ready and repairs == recreated

    try:
        await wait_for_condition(is_ready, within=180)
    except AssertionError:
        raise AssertionError(f"status: {status}") from None


async def wait_for_event(client: Client, namespace: str, reason: str) -> None:
    async def is_recorded() -> bool:
        found = await client.list(EVENTS, namespace)
        return any(each["reason"] == reason for each in found.items)

    await wait_for_condition(is_recorded)


def check_instance_commands(run: Run, namespace: str) -> None:
    header, *lines = run("get iei --all-namespaces")
    assert header.split() == COLUMNS
    (line,) = (each.split() for each in lines if each.startswith(f"{namespace} "))
    assert line == [namespace, NAME, "llama32-90b", "108", "108", "0"]

    header, line = run(f"get iei -n {namespace} -o wide")
    assert header.split() == [*COLUMNS[1:], "PHASE", "DOMAIN", "REPAIRS", "AGE"]
    assert line.split()[:-1] == [
        NAME,
        "llama32-90b",
        "108",
        "108",
        "0",
        "Ready",
        *line.split()[6:-1],
    ]

    pods = f"get pods -n {namespace} --no-headers -l supernova.groq.io/model-instance={NAME}"
    agents = run(f"{pods},supernova.groq.io/role=agent")
    assert len(agents) == AGENTS
    assert {each.split()[2] for each in agents} == {"Running"}
    (conductor,) = run(f"{pods},supernova.groq.io/role=conductor")
    assert conductor.split()[:3] == [f"{NAME}-conductor", "1/1", "Running"]

    shown = "\n".join(run(f"describe iei {NAME} -n {namespace}"))
    for each in ("Target Agents:  108", "Ready Agents:", "AgentPodsRecreated"):
        assert each in shown

    picture = "\n".join(run("fit --context dal1-prod1"))
    assert f"{namespace}/{NAME}" in picture
    assert f"{namespace}-node-" in picture


def check_events(run: Run, namespace: str) -> None:
    events = f"get events -n {namespace} --no-headers"
    kind, name = "involvedObject.kind=InferenceEngineInstance", f"involvedObject.name={NAME}"
    for command in (
        f"{events} --field-selector {kind} --field-selector {name}",
        f"{events} --field-selector {kind} --sort-by=.lastTimestamp",
    ):
        (line,) = run(command)
        _, type_, reason, reference, *message = line.split()
        assert (type_, reason) == ("Normal", "AgentPodsRecreated")
        assert reference == f"inferenceengineinstance/{NAME}"
        assert message[:4] == ["Recreated", "1", "agent", "pod:"]


def check_fleet_commands(run: Run, namespace: str) -> None:
    header, line = run(f"get gd -n {namespace} --context msp2-prod1")
    assert header.split() == ["NAME", "RELEASE", "DESIRED", "OBSERVED", "READY", "WAVE", "AGE"]
    assert line.startswith("llama ")

    header, line = run(f"get gr -n {namespace} --context msp2-prod1")
    assert header.split()[0] == "NAME"
    assert line.split()[:3] == ["llama-7", "llama32-90b", "b-7"]

    # `deployments` without a group are still those of apps.
    assert run(f"get deployments -n {namespace} --no-headers") == []
    (line,) = run(f"get deployments.inference-engine.groq.io -n {namespace} --no-headers")
    assert line.startswith("llama ")
