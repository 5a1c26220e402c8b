"""How an operator is set up."""

from dataclasses import dataclass

from kilonova.api.schedulingnames import SCHEDULER


@dataclass(frozen=True, slots=True)
class Settings:
    """What may be chosen; the defaults suit a cluster that Kilonova schedules."""

    topology: bool = True
    """Whether topology constraints are taken."""
    mnnvl: bool = False
    """Whether GPU cliques get compute domains for multi-node NVLink."""
    startup_image: str = "busybox:1.37"
    """Image of the init container that waits for other cliques: any with a shell."""
    schedulers: tuple[str, ...] = ("default-scheduler", "kai-scheduler", SCHEDULER)
    """Schedulers that a set may name; the first is meant where none is named."""
    backends: tuple[str, ...] = ()
    """Those of them that get objects of their own kinds: `kai-scheduler`, `volcano`."""
    authorizer: bool = False
    """Whether only the operator may change what it made."""
    exempt_users: tuple[str, ...] = ()
    """Who may, nevertheless."""
    status_pace: float = 0.2
    """Seconds between two writes of one object's status, while it keeps changing."""
