"""The state of a deployment's instances, as far as rollouts depend on it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from kilonova.api.inference_engine import InferenceEngineInstance, names
from kilonova.api.times import parse_time
from kilonova.kube.status import find_condition

_PLACELESS_PHASES = frozenset({"Pending", "Allocating", "Failed"})


@dataclass(frozen=True, slots=True)
class InstanceState:
    """An instance that is not being deleted."""

    instance: InferenceEngineInstance
    is_updated: bool
    """Whether it was made from the current revision."""
    is_ready: bool
    is_available: bool
    """Whether it has been ready for `minReadySeconds`."""
    is_unallocatable: bool
    """Whether its cluster has no place for it."""
    has_place: bool = True
    """Whether it has, or had, accelerators that it could lose."""
    ready_since: datetime | None = None

    @property
    def name(self) -> str:
        """The name of the instance."""
        return self.instance.metadata.name

    @property
    def summary(self) -> str:
        """Its state in a word or two, for events."""
        if self.is_unallocatable:
            return "unallocatable"
        if not self.has_place:
            return "not allocated"
        if not self.is_ready:
            return "not ready"
        return "ready" if self.is_available else "not available yet"


def build_instance_state(
    instance: InferenceEngineInstance, current_hash: str, min_ready: timedelta, now: datetime
) -> InstanceState:
    """The state of an instance that is not being deleted."""
    ready = find_condition(instance.status.conditions, "Ready")
    is_ready = ready is not None and ready.status == "True"
    text = ready.last_transition_time if is_ready and ready is not None else None
    since = parse_time(text) if text else None
    return InstanceState(
        instance,
        instance.metadata.labels.get(names.TEMPLATE_HASH) == current_hash,
        is_ready,
        is_ready and (since is None or not min_ready or since + min_ready <= now),
        instance.status.phase == "Failed",
        instance.status.phase not in _PLACELESS_PHASES,
        since,
    )


def sort_for_deletion(states: Sequence[InstanceState]) -> list[InstanceState]:
    """Those that are deleted first come first: unallocatable, not allocated yet, not ready, not
    available, outdated; of equal ones the newest."""
    newest_first = sorted(states, key=_creation_order, reverse=True)
    return sorted(newest_first, key=_deletion_rank)


def _deletion_rank(state: InstanceState) -> tuple[bool, ...]:
    return (
        not state.is_unallocatable,
        state.has_place,
        state.is_ready,
        state.is_available,
        state.is_updated,
    )


def _creation_order(state: InstanceState) -> tuple[str, str]:
    return state.instance.metadata.creation_timestamp, state.name
