"""Inference services in the cluster of `kilonova up`."""

import asyncio
import errno
import socket
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from kilonova.api.scheduling_names import DEFAULT_SCHEDULER_NAME, SCHEDULER_NAME
from kilonova.api.serving import names
from kilonova.component.embedded import EmbeddedComponent, EmbeddedContext
from kilonova.kube import Manager, Reflector, Runnable
from kilonova.kube.admission.registration import list_in_process_webhooks
from kilonova.serving.admission import build_handlers, list_webhooks
from kilonova.serving.resources import CONFIG_MAPS, INFERENCE_SERVICES
from kilonova.serving.settings import ServingSettings

_HOST = "127.0.0.1"
_PORTS = range(18000, 19000)
"""Of the control plane: below the ephemeral ports."""
_PORTS_FILE = "control-plane-ports"
_GRACE_SECONDS = 5.0


def build_embedded_serving(context: EmbeddedContext) -> EmbeddedComponent:
    """The webhook; controllers, control plane and autoscaler from the first service on."""

    def build_runnables() -> Sequence[Runnable]:
        services = Reflector(context.client, INFERENCE_SERVICES)
        releases = Reflector(context.client, CONFIG_MAPS, label_selector=names.SERVICE_CONFIG)
        on_demand = ServingOnDemand((services, releases), lambda: _build_manager(context))
        return [services, releases, on_demand]

    return EmbeddedComponent(
        build_runnables=build_runnables,
        build_webhooks=lambda: list_in_process_webhooks(list_webhooks(), build_handlers()),
    )


class ServingOnDemand:
    """Runs what serves from the first InferenceService on, or the first ConfigMap that one is made
    of: until then, a cluster has two watches, and none of the modules. A `GracefulRunnable`."""

    name = "inference services"

    def __init__(
        self, sources: Sequence[Reflector[Any]], build_manager: Callable[[], Manager]
    ) -> None:
        self._sources = sources
        self._build_manager = build_manager
        self._wake = asyncio.Event()
        self._manager: Manager | None = None
        self._is_stopping = False

    async def run(self) -> None:
        """Run until `stop`."""
        unsubscribe = [each.store.add_event_handler(self._on_object) for each in self._sources]
        if any(len(each.store) for each in self._sources):
            self._wake.set()
        try:
            await self._wake.wait()
        finally:
            for each in unsubscribe:
                each()
        if not self._is_stopping:
            self._manager = self._build_manager()
            await self._manager.run(signals=False)

    def stop(self) -> None:
        """Let `run` return."""
        self._is_stopping = True
        self._wake.set()
        if self._manager is not None:
            self._manager.stop()

    def _on_object(self, old: object, new: object) -> None:
        del old
        if new is not None:
            self._wake.set()


def _build_manager(context: EmbeddedContext) -> Manager:
    from kilonova.serving.assembly import build_serving

    cluster = context.cluster
    serving = build_serving(
        context.client,
        _settings_for(context),
        now=cluster.clock.now,
        monotonic=cluster.clock.monotonic,
        registry=cluster.component_registry(context.name),
        new_id=cluster.new_id,
    )
    manager = Manager(grace=_GRACE_SECONDS)
    manager.add(*serving.runnables)
    manager.add_leader_runnables(*serving.leader_runnables)
    return manager


def _settings_for(context: EmbeddedContext) -> ServingSettings:
    """Without our scheduler in the cluster, pods are left to the default one."""
    has_scheduler = "scheduler" in context.selected
    folder = None if context.cluster.data_path is None else context.directory
    port, http_port = choose_ports(folder)
    return ServingSettings(
        scheduler_name=SCHEDULER_NAME if has_scheduler else DEFAULT_SCHEDULER_NAME,
        control_plane_host=_HOST,
        control_plane_port=port,
        control_plane_http_port=http_port,
        on_this_machine="process-node" in context.selected,
        releases=True,
    )


def choose_ports(folder: Path | None, candidates: range = _PORTS) -> tuple[int, int]:
    """Two free ports: those that the cluster had before, if they are still free. Its gateways
    outlive Kilonova, and go on with the same control plane after a restart."""
    file = None if folder is None else folder / _PORTS_FILE
    free = _list_free([*(each for each in _read_ports(file) if each in candidates), *candidates], 2)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(" ".join(map(str, free)))
    return free[0], free[1]


def _read_ports(file: Path | None) -> list[int]:
    try:
        words = [] if file is None else file.read_text().split()
    except (FileNotFoundError, UnicodeDecodeError):
        return []
    return [int(each) for each in words if each.isdigit()]


def _list_free(ports: Iterable[int], count: int) -> list[int]:
    found: list[int] = []
    for port in ports:
        if port not in found and _is_free(port):
            found.append(port)
        if len(found) == count:
            return found
    raise OSError(errno.EADDRINUSE, f"no two ports from {_PORTS.start} on are free")


def _is_free(port: int) -> bool:
    with socket.socket() as sock:
        # Connections of gateways to the former Kilonova may linger.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((_HOST, port))
        except OSError:
            return False
    return True
