"""What `kilonova run agent` costs at rest, with eight simulated GPUs and everything served."""

import tempfile
import time
from pathlib import Path

import psutil

from bench.gpu.inputs import Inputs
from bench.home.servers import start_embedded
from bench.processes import read_cpu_seconds
from bench.report import Quantity, Row
from tests.workloads.process.operator_process import component_process

_NODE = "gpu-0"
_BACKEND = "simulated:h100"
"""With eight GPUs."""

CPU = Quantity("agent, 8 GPUs: idle CPU, of one core", "%", target=1)
PSS = Quantity("agent, 8 GPUs: memory (PSS)", "MB", target=80)
OWN = Quantity("agent, 8 GPUs: memory of its own (USS)", "MB")
RSS = Quantity("agent, 8 GPUs: memory (RSS)", "MB")


def measure(inputs: Inputs) -> list[Row]:
    """CPU over some seconds after it has settled, then memory."""
    # Paths of sockets are short.
    with tempfile.TemporaryDirectory(prefix="k-") as name, start_embedded()(Path(name)) as server:
        folder = Path(name)
        body = {"metadata": {"name": _NODE}}
        status, answer = server.access.request("POST", "/api/v1/nodes", body)
        assert status == 201, answer
        options = (
            *("--node-name", _NODE, "--backend", _BACKEND, "--state-dir", str(folder / "state")),
            *("--kubelet-dir", str(folder / "kubelet"), "--cdi-dir", str(folder / "cdi")),
            *("--port", "0", "--exporter-port", "0"),
        )
        kubeconfig = server.access.kubeconfig
        with component_process("agent", kubeconfig, folder, *options) as running:
            agent = psutil.Process(running.process.pid)
            time.sleep(inputs.settle_seconds)
            before, began = read_cpu_seconds(agent.pid), time.perf_counter()
            time.sleep(inputs.idle_seconds)
            used = read_cpu_seconds(agent.pid) - before
            cpu = 100 * used / (time.perf_counter() - began)
            memory = agent.memory_full_info()
    return [
        Row(CPU, cpu),
        Row(PSS, memory.pss / 1e6),
        Row(OWN, memory.uss / 1e6),
        Row(RSS, memory.rss / 1e6),
    ]
