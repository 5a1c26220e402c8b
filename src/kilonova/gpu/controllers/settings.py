"""Settings of the controllers."""

from dataclasses import dataclass

from kilonova.api.scheduling_names import SCHEDULER_NAME


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """Settings of the controllers of GPU objects."""

    scheduler_name: str = SCHEDULER_NAME
    """The scheduler of pods whose template names none."""
    gpus_per_node: int = 8
    """The number of GPUs that a node is assumed to have while there is none that a workload could
    use, such as before an autoscaler adds one."""
    status_write_interval: float = 1.0
    """Minimum seconds between two status writes of the same MIGStrategy."""
