"""The settings of the manager."""

from dataclasses import dataclass, field

from kilonova.fleet.planning import PlanSettings


@dataclass(frozen=True, slots=True)
class ManagerSettings:
    """Times in seconds."""

    plan: PlanSettings = field(default_factory=PlanSettings)
    register_members: bool = False
    """Whether a member that reports, and has no Cluster, gets one."""
    pass_interval: float = 2.0
    """How often the members' reports are read."""
    wake_delay: float = 0.2
    """How long changes of the hub are collected before a pass."""
    blind_after: float = 15.0
    """After this time without a pass, the manager has not observed the members: their silence
    counts from now on."""
    hub_timeout: float = 15.0
    """How long a new leader waits for its hub before it goes on with what is saved."""
    store_timeout: float = 20.0
    """After this time a request to the store has failed."""
    seen_interval: float = 10.0
    """How often the time of the last report is written to a Cluster's status, if nothing else
    changes."""
