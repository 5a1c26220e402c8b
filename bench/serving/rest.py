"""What a service costs at rest: its gateway, and its control plane, autoscaler and controllers."""

import json
import time
from pathlib import Path

import psutil

from bench.comparison import measure_in_temporary_folder
from bench.processes import read_cpu_seconds
from bench.report import Quantity, Row
from bench.serving.inputs import Inputs
from bench.serving.service import NAME, build_service
from tests.serving.service_on_this_machine import ServingMachine, list_listeners, serving_machine

GATEWAY_CPU = Quantity("at rest: gateway, CPU of one core", "%", target=1)
GATEWAY_MEMORY = Quantity("at rest: gateway, memory (RSS)", "MB", target=100)
CONTROL_CPU = Quantity("at rest: kilonova up with a service, CPU of one core", "%", target=3)
ADDED_CPU = Quantity("at rest: what the service adds to kilonova up, CPU of one core", "%")
CONTROL_MEMORY = Quantity("at rest: kilonova up with a service, memory (RSS)", "MB", target=250)
ADDED_MEMORY = Quantity("at rest: what the service adds to kilonova up, memory (RSS)", "MB")


def measure(inputs: Inputs, data: Path | None) -> list[Row]:
    """The same cluster before it has a service, and with one that has a server and a gateway."""
    return measure_in_temporary_folder(lambda folder: _measure(folder, inputs), data)


def _measure(folder: Path, inputs: Inputs) -> list[Row]:
    with serving_machine(folder) as machine:
        cluster = _find_cluster(machine)
        time.sleep(inputs.settle_seconds)
        [cpu_before] = _measure_cpu([cluster], inputs.idle_seconds)
        memory_before = cluster.memory_info().rss
        machine.create(build_service())
        status = machine.wait_for(NAME, lambda each: each.get("phase") == "Ready")
        [gateway] = list_listeners(status["url"])
        time.sleep(inputs.settle_seconds)
        gateway_cpu, cpu = _measure_cpu([gateway, cluster], inputs.idle_seconds)
        memory = cluster.memory_info().rss
        return [
            Row(GATEWAY_CPU, gateway_cpu),
            Row(GATEWAY_MEMORY, gateway.memory_info().rss / 1e6),
            Row(CONTROL_CPU, cpu),
            Row(ADDED_CPU, cpu - cpu_before),
            Row(CONTROL_MEMORY, memory / 1e6),
            Row(ADDED_MEMORY, (memory - memory_before) / 1e6),
        ]


def _find_cluster(machine: ServingMachine) -> psutil.Process:
    return psutil.Process(json.loads((machine.data / "running.json").read_bytes())["pid"])


def _measure_cpu(processes: list[psutil.Process], seconds: float) -> list[float]:
    """Percent of a core of each."""
    before, began = [read_cpu_seconds(each.pid) for each in processes], time.perf_counter()
    time.sleep(seconds)
    elapsed = time.perf_counter() - began
    return [
        100 * (read_cpu_seconds(each.pid) - start) / elapsed
        for each, start in zip(processes, before, strict=True)
    ]
