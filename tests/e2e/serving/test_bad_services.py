"""Services that cannot be, through kubectl: rejected by field, or told of in a condition; and
nothing is left of them."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.e2e.serving.bad_services import BAD_SPECS, MODEL
from tests.harness.kubectl import Kubectl
from tests.serving.service_on_this_machine import ServingMachine, serving_machine, wait_until

NAMES = ("1web", "web.dot", "WEB", "w" * 60)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServingMachine]:
    with serving_machine(tmp_path_factory.mktemp("home")) as started:
        yield started


@pytest.fixture
def kubectl(kubectl_path: Path, machine: ServingMachine, tmp_path: Path) -> Kubectl:
    return Kubectl(kubectl_path, machine.access.kubeconfig, tmp_path)


def build_service(name: str, spec: Any) -> dict[str, Any]:
    head = {"apiVersion": "serving.kilonova.dev/v1alpha1", "kind": "InferenceService"}
    return {**head, "metadata": {"name": name}, "spec": spec}


def test_each_is_rejected_with_field_value_and_fix(
    kubectl: Kubectl, machine: ServingMachine
) -> None:
    services = [build_service(f"bad-{number}", each[0]) for number, each in enumerate(BAD_SPECS)]
    services += [build_service(name, {"servers": [MODEL]}) for name in NAMES]
    done = kubectl("create -f -", stdin="\n---\n".join(map(json.dumps, services)))
    assert done.out == ""
    answers = split_errors(done.err)
    assert len(answers) == len(services), done.err
    for answer, (spec, field, reason) in zip(answers, BAD_SPECS, strict=False):
        assert field in answer, (spec, answer)
        assert reason in answer, (spec, answer)
    for answer in answers[len(BAD_SPECS) :]:
        assert "name" in answer
    assert machine.access.request("GET", "/apis/apps/v1/deployments")[1]["items"] == []


def split_errors(text: str) -> list[str]:
    """The errors of kubectl, each of one or several lines."""
    starts = ("The InferenceService", "Error from server", "error:")
    errors: list[str] = []
    for line in text.splitlines():
        if line.startswith(starts):
            errors.append(line)
        elif line:
            errors[-1] += f"\n{line}"
    return errors


REPORTED: dict[str, tuple[Any, str, str, str]] = {
    "tls-missing": (
        {"servers": [MODEL], "gateway": {"tls": {"secret": "absent"}}},
        "GatewayReady",
        "InvalidConfiguration",
        "gateway.tls.secret: Secret 'absent' does not exist",
    ),
    "keys-missing": (
        {"servers": [MODEL], "auth": {"apiKeys": {"secret": "absent"}}},
        "GatewayReady",
        "InvalidConfiguration",
        "auth.apiKeys.secret: Secret 'absent' does not exist",
    ),
    "config-missing": (
        {"servers": [MODEL], "gateway": {"staticConfig": {"name": "absent"}}},
        "ConfigurationAccepted",
        "ConfigMapMissing",
        "spec.gateway.staticConfig: ConfigMap absent does not exist",
    ),
    "label-invalid": (
        {"servers": [MODEL], "gateway": {"pods": {"labels": {"a b": "c"}}}},
        "ConfigurationAccepted",
        "FailedCreate",
        '"a b"',
    ),
    "variable-twice": (
        {"servers": [{**MODEL, "env": [{"name": "A", "value": v} for v in "12"]}]},
        "ConfigurationAccepted",
        "FailedCreate",
        "A",
    ),
    "flag-unknown": (
        {"servers": [{**MODEL, "args": ["--no-such-flag"]}]},
        "ServersReady",
        "NoReadyServer",
        "CrashLoopBackOff",
    ),
    "secret-missing": (
        {
            "servers": [
                {
                    **MODEL,
                    "env": [
                        {
                            "name": "A",
                            "valueFrom": {"secretKeyRef": {"name": "absent", "key": "k"}},
                        }
                    ],
                }
            ]
        },
        "ServersReady",
        "NoReadyServer",
        'secret "absent" not found',
    ),
    "queue-missing": (
        {"servers": [{**MODEL, "queue": "absent"}]},
        "ServersReady",
        "NoReadyServer",
        'there is no queue "absent"',
    ),
    "kubernetes": (
        {"servers": [{**MODEL, "replicas": 0}]},
        "ConfigurationAccepted",
        "NameTaken",
        "Service kubernetes belongs to another object: delete it, or rename the service",
    ),
}


def test_what_only_the_cluster_knows_is_a_condition(
    kubectl: Kubectl, machine: ServingMachine
) -> None:
    services = [
        build_service(name, {**each[0], "servers": list(map(without_drain, each[0]["servers"]))})
        for name, each in REPORTED.items()
    ]
    done = kubectl("create -f -", stdin="\n---\n".join(map(json.dumps, services)))
    assert done.code == 0, done.err
    for name, (_, type_, reason, text) in REPORTED.items():

        def is_told(
            status: Any, type_: str = type_, reason: str = reason, text: str = text
        ) -> bool:
            return any(
                (each["type"], each["status"], each["reason"]) == (type_, "False", reason)
                and text in each["message"]
                for each in status.get("conditions", [])
            )

        machine.wait_for(name, is_told)
        assert machine.get_status(name)["phase"] not in ("Ready", "Idle")


def without_drain(group: Any) -> Any:
    return {**group, "drain": "0s"}


def test_nothing_is_left_of_them_and_kilonova_rests(
    kubectl: Kubectl, machine: ServingMachine
) -> None:
    kilonova = psutil.Process(json.loads((machine.data / "running.json").read_bytes())["pid"])
    assert kubectl("delete isvc --all --wait=false").code == 0
    kinds = "pods,deployments,podcliquesets,podgangs,persistentvolumeclaims,isvc"

    def is_gone() -> bool:
        return kubectl(f"get {kinds} -o name").out == ""

    wait_until(is_gone, lambda: kubectl(f"get {kinds} -o name").out)
    services = "get services,secrets -o name -l serving.kilonova.dev/inference-service"
    wait_until(lambda: kubectl(services).out == "")
    assert "Traceback" not in (machine.data / "log").read_text()
    wait_until(lambda: is_at_rest(kilonova))


def is_at_rest(process: psutil.Process, seconds: float = 2.0) -> bool:
    """Whether it uses less than a twentieth of a processor."""
    before = process.cpu_times()
    time.sleep(seconds)
    after = process.cpu_times()
    used = after.user + after.system - before.user - before.system
    return used < 0.05 * seconds
