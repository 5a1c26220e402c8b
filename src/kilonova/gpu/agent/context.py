"""What all parts of a node agent share."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from kilonova.catalog import Catalog
from kilonova.gpu.agent.metrics import AgentMetrics
from kilonova.gpu.agent.remediation.recovery import RecoverySettings
from kilonova.kube import Client
from kilonova.kube.events import EventRecorder

if TYPE_CHECKING:
    from kilonova.gpu.mig.parted.config_file import ConfigFile

PREWARM_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """How an agent treats its node."""

    recovery: RecoverySettings = field(default_factory=RecoverySettings)
    publishes_resources: bool = True
    """Whether extended resources are written to the Node: where no device plugin does."""
    publishes_labels: bool = True
    """Whether the labels of GPU feature discovery are written: where it does not run itself."""
    taints: bool = True
    """Whether a node whose devices are all unhealthy gets a taint."""
    idle_seconds: float = 300.0
    """How long a device without use stays in MIG mode."""
    prewarm_seconds: float = PREWARM_SECONDS
    """As many unused MIG instances are kept as pods are likely to request within this time; 0 keeps
    none."""


@dataclass(frozen=True, slots=True)
class AgentContext:
    """Clients, clocks and settings. `enqueue` has a node reconciled soon."""

    client: Client
    events: EventRecorder
    now: Callable[[], datetime]
    enqueue: Callable[[str], None]
    catalog: Catalog
    settings: AgentSettings = field(default_factory=AgentSettings)
    metrics: AgentMetrics = field(default_factory=AgentMetrics)
    configs: "ConfigFile | None" = None
    """The configs of the label `nvidia.com/mig.config`; None: those of NVIDIA's mig-parted."""
