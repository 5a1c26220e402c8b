"""PodCliqueSets and PodCliques; PodGangs are those of `kilonova.api`."""

import msgspec

from kilonova.api import podgang
from kilonova.api.grove import GROUP as GROVE
from kilonova.api.grove import VERSION as GROVE_VERSION
from kilonova.api.grove.common import LastError
from kilonova.api.meta import Condition
from kilonova.console.objects.controllers import WorkloadMeta
from kilonova.console.objects.pods import PodSpec
from kilonova.kube import Resource


class PodCliqueSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Spec of a clique."""

    role_name: str = ""
    replicas: int = 1
    min_available: int | None = None
    starts_after: tuple[str, ...] = ()
    pod_spec: PodSpec = PodSpec()

    @property
    def effective_min_available(self) -> int:
        """minAvailable, or all replicas if unset."""
        return self.replicas if self.min_available is None else self.min_available


class PodCliqueStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Status of a clique."""

    ready_replicas: int = 0
    scheduled_replicas: int = 0


class PodClique(msgspec.Struct, gc=False):
    """A PodClique."""

    metadata: WorkloadMeta
    spec: PodCliqueSpec
    status: PodCliqueStatus = PodCliqueStatus()


class PodCliqueTemplate(msgspec.Struct, frozen=True, gc=False):
    """Template of a clique."""

    name: str
    spec: PodCliqueSpec


class PodCliqueSetTemplate(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Template of a replica."""

    cliques: tuple[PodCliqueTemplate, ...] = ()
    clique_startup_type: str = ""


class PodCliqueSetSpec(msgspec.Struct, frozen=True, gc=False):
    """Spec of a PodCliqueSet."""

    template: PodCliqueSetTemplate = PodCliqueSetTemplate()
    replicas: int = 0


class PodGangSummary(msgspec.Struct, frozen=True, gc=False):
    """Phase of one gang of a PodCliqueSet."""

    name: str
    phase: str = "Pending"


class PodCliqueSetStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Status of a PodCliqueSet."""

    available_replicas: int = 0
    updated_replicas: int = 0
    conditions: tuple[Condition, ...] = ()
    last_errors: tuple[LastError, ...] = ()
    pod_gang_statuses: tuple[PodGangSummary, ...] = ()


class PodCliqueSet(msgspec.Struct, gc=False):
    """A PodCliqueSet."""

    metadata: WorkloadMeta
    spec: PodCliqueSetSpec
    status: PodCliqueSetStatus = PodCliqueSetStatus()


SETS = Resource(GROVE, GROVE_VERSION, "podcliquesets", "PodCliqueSet", True, PodCliqueSet)
CLIQUES = Resource(GROVE, GROVE_VERSION, "podcliques", "PodClique", True, PodClique)
GANGS = Resource(podgang.GROUP, podgang.VERSION, "podgangs", "PodGang", True, podgang.PodGang)
