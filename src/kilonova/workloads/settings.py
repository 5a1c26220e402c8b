"""Settings of the operator, and defaults that admission and controllers share."""

from dataclasses import dataclass

from kilonova.api.scheduling_names import DEFAULT_SCHEDULER_NAME, SCHEDULER_NAME

DEFAULT_TERMINATION_DELAY = "4h"
"""terminationDelay of a PodCliqueSet that has none."""


@dataclass(frozen=True, slots=True)
class OperatorSettings:
    """Settings of an operator; the defaults suit a cluster with kube-scheduler."""

    topology: bool = True
    """Whether topology constraints are allowed."""
    mnnvl: bool = False
    """Whether GPU cliques get compute domains for multi-node NVLink."""
    startup_image: str = "busybox:1.37"
    """Image of the init container that waits for other cliques: any image with a shell."""
    schedulers: tuple[str, ...] = (DEFAULT_SCHEDULER_NAME, "kai-scheduler", SCHEDULER_NAME)
    """Allowed values of schedulerName; the first is the default."""
    backends: tuple[str, ...] = ()
    """Schedulers for which the operator writes PodGroups: `kai-scheduler`, `volcano`."""
    authorizer: bool = False
    """Whether only the operator may change the objects that it manages."""
    exempt_users: tuple[str, ...] = ()
    """Users that are exempt from the authorizer."""
    status_write_interval: float = 0.2
    """Minimum seconds between two status writes of the same object."""
