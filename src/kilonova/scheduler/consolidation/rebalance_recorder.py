"""Reports rebalancings of MIG instances: events of their MIGStrategy, and a metric."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kilonova.kube.events import ObjectReference
from kilonova.scheduler.consolidation.capacity_holds import CapacityHold, target_nodes
from kilonova.scheduler.context import SchedulerContext

_MAX_NAMED_PODS = 4


@dataclass(slots=True)
class _Rebalance:
    """A rebalancing in progress."""

    strategy: ObjectReference
    pods: Mapping[str, int]
    """Number of pods by gang."""
    outcomes: dict[str, str] = field(default_factory=dict[str, str])
    """By gang: completed, cancelled or expired."""


class RebalanceRecorder:
    """Follows rebalancings from their start until each of their gangs has an outcome."""

    def __init__(self, context: SchedulerContext) -> None:
        self._events = context.recorder
        self._metrics = context.metrics
        self._in_progress: dict[str, _Rebalance] = {}
        """By gang: a gang migrates once at a time."""

    def start(
        self,
        strategy: str,
        uid: str,
        holds: Sequence[CapacityHold],
        node_names: list[str],
        pending: str = "",
    ) -> None:
        """The pods of some holds are about to be evicted, to place a `pending` gang if one is
        named."""
        reference = ObjectReference("kgwe.nvidia.io/v1", "MIGStrategy", strategy, "", uid)
        pods = {hold.gang: len(hold.slots) for hold in holds}
        rebalance = _Rebalance(reference, pods)
        self._in_progress |= dict.fromkeys(pods, rebalance)
        moves = [
            f"{pod} to node {node}"
            for hold in holds
            for pod, node in sorted(target_nodes(hold, node_names).items())
        ]
        more = len(moves) - _MAX_NAMED_PODS
        named = ", ".join(moves[:_MAX_NAMED_PODS]) + (f" and {more} more" if more > 0 else "")
        purpose = f"to place {pending}" if pending else "to free MIG capacity"
        self._metrics.count_mig_rebalance("started")
        self._events.event(reference, "RebalanceStarted", f"Moving {named} {purpose}")

    def finish(self, gang: str, outcome: str) -> None:
        """The migration of a gang has ended; gangs of other migrations are ignored."""
        rebalance = self._in_progress.pop(gang, None)
        if rebalance is None:
            return
        rebalance.outcomes[gang] = outcome
        if rebalance.outcomes.keys() < rebalance.pods.keys():
            return
        total = sum(rebalance.pods.values())
        moved = sum(
            rebalance.pods[name]
            for name, outcome in rebalance.outcomes.items()
            if outcome == "completed"
        )
        is_complete = moved == total
        self._metrics.count_mig_rebalance("completed" if is_complete else "incomplete")
        reason = "RebalanceComplete" if is_complete else "RebalanceIncomplete"
        message = f"Moved {moved} of {total} pods"
        self._events.event(rebalance.strategy, reason, message, warning=not is_complete)
