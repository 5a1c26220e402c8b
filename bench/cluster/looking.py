"""Looking at a cluster from outside: is everything there, and what does it use."""

import time
from collections.abc import Callable

from bench.home.servers import NAMESPACE, Server

PODS_PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"
_PATIENCE_SECONDS = 900
_SETTLING_SECONDS = 10


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Look again and again until it holds."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"waited {_PATIENCE_SECONDS} s for {what}")
        time.sleep(0.5)


def are_ready(server: Server, nodes: int) -> bool:
    """Whether there are so many nodes. They are ready from the moment they are made."""
    return count(server, "/api/v1/nodes") == nodes


def are_running(server: Server, pods: int) -> bool:
    """Whether there are so many pods, and none of them is anything but running."""
    others = f"{PODS_PATH}?fieldSelector=status.phase%21%3DRunning&limit=1"
    _, found = server.access.ask("GET", others)
    return not found["items"] and count(server, PODS_PATH) == pods


def settle(idle_seconds: float) -> None:
    """Let what has just been made come to rest; not for longer than it is then looked at."""
    time.sleep(min(_SETTLING_SECONDS, idle_seconds))


def share_of_a_core(server: Server, seconds: float) -> float:
    """Processor time of the server over so many seconds, in percent."""
    before, began = server.cpu_seconds(), time.perf_counter()
    time.sleep(seconds)
    return 100 * (server.cpu_seconds() - before) / (time.perf_counter() - began)


def count(server: Server, path: str) -> int:
    """How many objects a collection has."""
    _, found = server.access.ask("GET", f"{path}?limit=1")
    return len(found["items"]) + found["metadata"].get("remainingItemCount", 0)
