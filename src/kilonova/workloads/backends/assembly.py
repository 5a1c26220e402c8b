"""The runnables of the enabled backends."""

from dataclasses import dataclass

from kilonova.api.grove import names
from kilonova.kube import NO_RUNTIME_METRICS, Client, Runnable, RuntimeMetrics
from kilonova.kube.events import EventRecorder
from kilonova.workloads.backends import KAI, VOLCANO
from kilonova.workloads.backends.interface import SchedulerBackend
from kilonova.workloads.backends.kai.backend import KaiBackend
from kilonova.workloads.backends.kai.topologies import KAI_TOPOLOGIES, KaiTopology
from kilonova.workloads.backends.optional_kinds import OptionalKind
from kilonova.workloads.backends.pod_group_controller import build_pod_group_controllers
from kilonova.workloads.backends.volcano import VolcanoBackend
from kilonova.workloads.caches import Caches
from kilonova.workloads.settings import OperatorSettings

_MANAGED_SELECTOR = f"{names.MANAGED_BY}={names.OPERATOR}"
_BACKENDS: dict[str, type[SchedulerBackend]] = {KAI: KaiBackend, VOLCANO: VolcanoBackend}


@dataclass(frozen=True, slots=True)
class EnabledBackends:
    """Runnables of the enabled backends."""

    runnables: tuple[Runnable, ...] = ()
    """Caches of their kinds."""
    leader_runnables: tuple[Runnable, ...] = ()
    """Controllers, which need leader election."""
    topologies: OptionalKind[KaiTopology] | None = None
    """KAI's Topologies, where they are derived from bindings."""


def build_backends(
    client: Client,
    caches: Caches,
    recorder: EventRecorder,
    settings: OperatorSettings,
    runtime_metrics: RuntimeMetrics = NO_RUNTIME_METRICS,
) -> EnabledBackends:
    """Build the backends that the settings name."""
    runnables: list[Runnable] = []
    controllers: list[Runnable] = []
    topologies = None
    for backend in (_BACKENDS[each]() for each in settings.backends):
        kind = OptionalKind(
            client,
            backend.pod_groups,
            label_selector=_MANAGED_SELECTOR,
            runtime_metrics=runtime_metrics,
        )
        runnables.append(kind)
        controllers += build_pod_group_controllers(
            client, caches, kind, backend, recorder, runtime_metrics
        )
    if KAI in settings.backends and settings.topology:
        topologies = OptionalKind(client, KAI_TOPOLOGIES, runtime_metrics=runtime_metrics)
        runnables.append(topologies)
    return EnabledBackends(tuple(runnables), tuple(controllers), topologies)
