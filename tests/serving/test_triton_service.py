"""Real Triton servers behind the gateway of a service, and the clients that SONIC's users have."""

import json
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.triton_client import run_client, run_perf_analyzer
from tests.harness.triton_server import write_add_model
from tests.serving.service_on_this_machine import (
    ServingMachine,
    list_listeners,
    serving_machine,
    wait_until,
)

SERVERS = 2
ADD = """
import sys
import numpy
from tritonclient import grpc, http

address, kind = sys.argv[1:]
module = {"grpc": grpc, "http": http}[kind]
client = module.InferenceServerClient(address)
inputs = [module.InferInput(name, [4], "FP32") for name in "AB"]
for each in inputs:
    each.set_data_from_numpy(numpy.array([1, 2, 3, 4], numpy.float32))
print(client.infer("add", inputs).as_numpy("SUM").tolist())
print(client.is_server_ready(), client.is_model_ready("add"), client.is_model_ready("spare"))
index = client.get_model_repository_index(**({"as_json": True} if kind == "grpc" else {}))
models = index["models"] if kind == "grpc" else index
print(sorted(each["name"] for each in models if each.get("state") == "READY"))
"""
COUNT = """
import sys
import numpy
from tritonclient import grpc

client = grpc.InferenceServerClient(sys.argv[1])

def count():
    (found,) = client.get_inference_statistics("add", as_json=True)["model_stats"]
    return int(found.get("inference_count", 0))

before = count()
inputs = [grpc.InferInput(name, [4], "FP32") for name in "AB"]
for each in inputs:
    each.set_data_from_numpy(numpy.zeros(4, numpy.float32))
for _ in range(10):
    client.infer("add", inputs)
print(count() - before)
"""


@pytest.fixture(scope="module")
def machine(
    triton_part: Path, tritonclient_part: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServingMachine]:
    """A machine with a service of two Tritons, whose model `add` is loaded and `spare` is not."""
    folder = tmp_path_factory.mktemp("home")
    for name, part in (("triton", triton_part), ("tritonclient", tritonclient_part)):
        cache = folder / ".cache" / "kilonova" / name
        cache.mkdir(parents=True)
        (cache / "current").symlink_to(part)
    models = folder / "models"
    for name in ("add", "spare"):
        write_add_model(models, name)
    group = {
        "name": "triton",
        "runtime": "Triton",
        "replicas": SERVERS,
        "drain": "3s",
        "modelRepository": {"directory": {"path": str(models)}},
        "modelPlacement": {"models": [{"name": "add"}]},
    }
    with serving_machine(folder, "--allow-host-path", str(models)) as started:
        started.create({"metadata": {"name": "sonic"}, "spec": {"servers": [group]}})
        started.wait_for("sonic", lambda each: is_loaded(each, "add"))
        yield started


@pytest.fixture(scope="module")
def grpc_address(machine: ServingMachine) -> str:
    return machine.get_status("sonic")["grpcAddress"]


def is_loaded(status: dict[str, Any], model: str) -> bool:
    """Whether every server gets requests and has a model."""
    groups = status.get("servers", [])
    models = [each for group in groups for each in group.get("models", [])]
    copies = {each["name"]: each["copies"] for each in models}
    return status.get("ready") == SERVERS and copies.get(model) == SERVERS


@pytest.mark.parametrize("kind", ["grpc", "http"])
def test_clients_of_triton_infer_and_ask_through_the_gateway(
    tritonclient_part: Path, machine: ServingMachine, grpc_address: str, kind: str
) -> None:
    url = machine.get_status("sonic")["url"].removeprefix("http://")
    address = grpc_address if kind == "grpc" else url
    done = run_client(tritonclient_part, ADD, address, kind)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[2.0, 4.0, 6.0, 8.0]", "True True False", "['add']"]


def test_statistics_are_those_of_all_servers(tritonclient_part: Path, grpc_address: str) -> None:
    done = run_client(tritonclient_part, COUNT, grpc_address)
    assert (done.stdout, done.stderr) == ("10\n", "")


def test_perf_analyzer_runs_clean_whichever_server_answers(
    tritonclient_part: Path, grpc_address: str
) -> None:
    for _ in range(3):
        # So many that they do not end before perf_analyzer has asked for the first statistics.
        done = run_perf_analyzer(
            tritonclient_part,
            *("-m", "add", "-i", "grpc", "-u", grpc_address, "--async"),
            *("--concurrency-range", "4", "--request-count", "2000"),
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Request count: 2000" in done.stdout


def test_perf_analyzer_runs_as_a_job(machine: ServingMachine) -> None:
    words = ("--perf-analyzer", "-m", "add", "-c", "2", "--requests", "2000")
    done = machine.kilonova("serve", "bench", "sonic", *words, "--data", machine.data)
    assert done.code == 0, done.err
    assert "Request count: 2000" in done.out


def test_models_are_loaded_and_unloaded_while_the_service_runs(
    tritonclient_part: Path, machine: ServingMachine, grpc_address: str
) -> None:
    (group,) = read_groups(machine)
    for wanted, expected in ((["add", "spare"], "True"), (["add"], "False")):
        group["modelPlacement"] = {"models": [{"name": name} for name in wanted]}
        machine.update("sonic", servers=[group])
        script = (
            "import sys; from tritonclient import grpc;"
            "print(grpc.InferenceServerClient(sys.argv[1]).is_model_ready('spare'))"
        )
        wait_until(
            lambda expected=expected, script=script: (
                run_client(tritonclient_part, script, grpc_address).stdout.strip() == expected
            )
        )
    assert all(is_ready(each) for each in machine.list_pods("sonic", "server"))


def test_killed_server_loses_no_request(machine: ServingMachine) -> None:
    machine.wait_for("sonic", lambda each: is_loaded(each, "add"))
    pods = machine.list_pods("sonic", "server")
    (victim,) = list_listeners(f"http://{pods[0]['status']['podIP']}:8000")
    timer = threading.Timer(1.5, victim.send_signal, (signal.SIGKILL,))
    timer.start()
    words = ("-m", "add", "-c", "4", "-d", "4s", "-o", "json", "--data", machine.data)
    done = machine.kilonova("serve", "bench", "sonic", *words)
    timer.join()
    assert done.code == 0, done.err
    result = json.loads(done.out)
    assert result["requests"] > 100
    assert (result["failed"], result.get("failures", [])) == (0, [])
    assert not victim.is_running()


def test_values_of_supersonic_are_served(
    tritonclient_part: Path, machine: ServingMachine, tmp_path: Path
) -> None:
    (group,) = read_groups(machine)
    models = group["modelRepository"]["directory"]["path"]
    small = {"requests": {"cpu": "10m", "memory": "10M"}}  # the machine has few cores
    values = {
        "triton": {
            "args": [f"tritonserver --model-repository={models}"],
            "resources": small,
        },
        "envoy": {"resources": small},
        "keda": {"enabled": True, "minReplicaCount": 0, "maxReplicaCount": 2},
    }
    file = tmp_path / "values.yaml"
    file.write_text(json.dumps(values))
    words = ("-f", file, "--release", "cms", "--timeout", "40s", "--data", machine.data)
    done = machine.kilonova("serve", *words)
    assert done.code == 0, done.err
    assert "default/cms is ready: 1 of 1 server" in done.out
    address = machine.get_status("cms")["grpcAddress"]
    done = run_client(tritonclient_part, ADD, address, "grpc")
    assert done.stdout.splitlines()[0] == "[2.0, 4.0, 6.0, 8.0]", done.stderr
    assert machine.kilonova("serve", "delete", "cms", "--data", machine.data).code == 0
    wait_until(lambda: not machine.list_pods("cms"))


def read_groups(machine: ServingMachine) -> list[dict[str, Any]]:
    path = "/apis/serving.kilonova.dev/v1alpha1/namespaces/default/inferenceservices/sonic"
    return machine.access.request("GET", path)[1]["spec"]["servers"]


def is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
