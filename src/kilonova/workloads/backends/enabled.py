"""All parts of the backends that an operator is set up with."""

from dataclasses import dataclass

from kilonova.api.grove import names
from kilonova.kube import UNMEASURED, Client, Instruments, Part
from kilonova.kube.events import Recorder
from kilonova.workloads.backends import KAI, VOLCANO
from kilonova.workloads.backends.kai import Kai
from kilonova.workloads.backends.kaitopologies import KAI_TOPOLOGIES, KaiTopology
from kilonova.workloads.backends.kinds import OptionalKind
from kilonova.workloads.backends.mapping import Backend
from kilonova.workloads.backends.podgroups import build_pod_group_controllers
from kilonova.workloads.backends.volcano import Volcano
from kilonova.workloads.caches import Caches
from kilonova.workloads.settings import Settings

_OURS = f"{names.MANAGED_BY}={names.OPERATOR}"
_BACKENDS: dict[str, type[Backend]] = {KAI: Kai, VOLCANO: Volcano}


@dataclass(frozen=True, slots=True)
class EnabledBackends:
    """What there is for schedulers of others; nothing of one that is not enabled."""

    parts: tuple[Part, ...] = ()
    """Caches of their kinds."""
    leading: tuple[Part, ...] = ()
    """Controllers, which write."""
    topologies: OptionalKind[KaiTopology] | None = None
    """KAI's topologies, where they are made from bindings."""


def build_backends(
    client: Client,
    caches: Caches,
    recorder: Recorder,
    settings: Settings,
    instruments: Instruments = UNMEASURED,
) -> EnabledBackends:
    """The backends that the settings name."""
    parts: list[Part] = []
    leading: list[Part] = []
    topologies = None
    for backend in (_BACKENDS[each]() for each in settings.backends):
        kind = OptionalKind(client, backend.pod_groups, labels=_OURS, instruments=instruments)
        parts.append(kind)
        leading += build_pod_group_controllers(client, caches, kind, backend, recorder, instruments)
    if KAI in settings.backends and settings.topology:
        topologies = OptionalKind(client, KAI_TOPOLOGIES, instruments=instruments)
        parts.append(topologies)
    return EnabledBackends(tuple(parts), tuple(leading), topologies)
