"""Observes a cluster from outside: whether all objects exist, and its CPU usage."""

import time
from collections.abc import Callable

from bench.home.servers import NAMESPACE, Server

PODS_PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"
_TIMEOUT_SECONDS = 900
_SETTLE_SECONDS = 10


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Poll until a condition holds."""
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"waited {_TIMEOUT_SECONDS} s for {what}")
        time.sleep(0.5)


def has_ready_nodes(server: Server, nodes: int) -> bool:
    """Whether there are so many nodes, which are ready at creation."""
    return count_objects(server, "/api/v1/nodes") == nodes


def has_running_pods(server: Server, pods: int) -> bool:
    """Whether there are so many pods, all Running."""
    others = f"{PODS_PATH}?fieldSelector=status.phase%21%3DRunning&limit=1"
    _, found = server.access.request("GET", others)
    return not found["items"] and count_objects(server, PODS_PATH) == pods


def settle(idle_seconds: float) -> None:
    """Let the cluster become idle; for no longer than it is measured afterwards."""
    time.sleep(min(_SETTLE_SECONDS, idle_seconds))


def measure_cpu_percent(server: Server, seconds: float) -> float:
    """CPU usage of the server over so many seconds, in percent of one core."""
    before, began = server.cpu_seconds(), time.perf_counter()
    time.sleep(seconds)
    return 100 * (server.cpu_seconds() - before) / (time.perf_counter() - began)


def count_objects(server: Server, path: str) -> int:
    """The number of objects in a collection."""
    _, found = server.access.request("GET", f"{path}?limit=1")
    return len(found["items"]) + found["metadata"].get("remainingItemCount", 0)
