"""The part of a gang's status that is not the scheduler's. Pure."""

from datetime import datetime

from kilonova.api.meta import Condition
from kilonova.api.podgang import PodGangStatus
from kilonova.api.times import format_rfc3339
from kilonova.instances.controllers.instance.health import was_complete
from kilonova.instances.controllers.instance.progress import Progress
from kilonova.kube.status import find_condition, with_condition


def build_gang_status(progress: Progress, now: datetime, *, is_created: bool) -> PodGangStatus:
    """The part of the gang's status that is not the scheduler's."""
    allocation = progress.allocation
    old, generation = allocation.gang.status, allocation.gang.metadata.generation
    is_placed_now, is_ready = progress.is_placed, progress.is_ready
    facts = (
        # It stays so when pods are deleted: these are replaced by others, in another generation.
        ("Initialized", is_created or was_complete(allocation), "PodGangPodsCreat", "created"),
        ("Scheduled", is_placed_now, "ScheduledPods", "placed"),
        ("Ready", is_ready, "ReadyPods", "ready"),
    )
    conditions: tuple[Condition, ...] = ()
    for type_, is_true, reason, verb in facts:
        found = find_condition(old.conditions, type_)
        kept = (*conditions, found) if found is not None else conditions
        condition = Condition(
            type_,
            "True" if is_true else "False",
            _get_reason(reason, is_true=is_true),
            f"all pods are {verb}" if is_true else f"not all pods are {verb}",
            observed_generation=generation,
        )
        conditions = with_condition(kept, condition, now)
    stamp = format_rfc3339(now)
    return PodGangStatus(
        phase="Running" if is_ready else "Starting" if is_placed_now else "Pending",
        conditions=conditions,
        # They stay, so that the scheduler releases no member because another one is missing.
        last_scheduled=old.last_scheduled or (stamp if is_placed_now else None),
        last_ready=old.last_ready or (stamp if is_ready else None),
    )


def _get_reason(noun: str, *, is_true: bool) -> str:
    if noun.endswith("Creat"):
        return f"{noun}ed" if is_true else f"{noun}ionPending"
    return f"{'Sufficient' if is_true else 'Insufficient'}{noun}"
