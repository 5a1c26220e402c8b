"""The GPU layer in the cluster of `kilonova up`: agents of the simulated nodes, and the controllers
and webhooks of GPU objects."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from kilonova.api.scheduling_names import DEFAULT_SCHEDULER_NAME
from kilonova.catalog import load_catalog
from kilonova.component.embedded import EmbeddedComponent, EmbeddedContext
from kilonova.gpu.admission import build_handlers, list_webhooks
from kilonova.gpu.agent.context import AgentContext
from kilonova.gpu.agent.metrics import AgentMetrics
from kilonova.gpu.agent.simulated.runner import build_simulated_agents
from kilonova.gpu.controllers import ControllerSettings, build_gpu_controllers
from kilonova.gpu.controllers.metrics import WorkloadMetrics
from kilonova.gpu.embedded_metrics import EmbeddedMetrics
from kilonova.kube import Runnable
from kilonova.kube.admission.registration import list_in_process_webhooks
from kilonova.kube.events import EventRecorder


def build_embedded_gpu(context: EmbeddedContext) -> EmbeddedComponent:
    """Agents, controllers and webhooks; the API server exposes the metrics of the agents."""
    cluster = context.cluster
    settings = _settings_for(context)
    metrics = EmbeddedMetrics(context)
    folders = _AgentFolders(cluster.data_path and context.directory / "agents")

    def build_runnables() -> Sequence[Runnable]:
        registry = cluster.component_registry(context.name)
        events = EventRecorder(
            context.client,
            "kilonova-gpu-agent",
            clock=cluster.clock.monotonic,
            wall=cluster.clock.now,
            new_id=cluster.new_id,
        )
        agents = build_simulated_agents(
            AgentContext(
                client=context.client,
                events=events,
                now=cluster.clock.now,
                enqueue=lambda name: None,
                catalog=load_catalog(),
                metrics=AgentMetrics(registry),
            ),
            folders.get,
            cluster.clock.monotonic,
        )
        cluster.provide_gpu_readings(agents.agents.read_gpus)
        controllers = build_gpu_controllers(
            context.client,
            settings,
            now=cluster.clock.now,
            monotonic=cluster.clock.monotonic,
            new_id=cluster.new_id,
        )
        return [
            *agents.runnables,
            *metrics.build_runnables(agents.agents),
            *controllers.runnables,
            *controllers.leader_runnables,
            WorkloadMetrics(controllers.caches, registry),
        ]

    return EmbeddedComponent(
        build_runnables=build_runnables,
        build_webhooks=lambda: list_in_process_webhooks(list_webhooks(), build_handlers(settings)),
        claim_ports=metrics.claim_port,
    )


def _settings_for(context: EmbeddedContext) -> ControllerSettings:
    """Without our scheduler in the cluster, pods are left to the default one."""
    if "scheduler" in context.selected:
        return ControllerSettings()
    return ControllerSettings(scheduler_name=DEFAULT_SCHEDULER_NAME)


class _AgentFolders:
    """Where agents keep their journals: in the data directory, or for a cluster in memory in a
    temporary folder, which is made when it is needed."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._temporary: tempfile.TemporaryDirectory[str] | None = None

    def get(self) -> Path:
        """The folder; it need not exist."""
        if self._folder is not None:
            return self._folder
        if self._temporary is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="kilonova-gpu-")
        return Path(self._temporary.name)
