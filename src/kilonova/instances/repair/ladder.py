"""The repair ladder, the policy that is built in. Pure.

1. Pods that are missing or have failed are created again, beside the others.
2. So are pods on lost nodes, and pods with unhealthy accelerators: the scheduler places them in the
   domain of the others, and avoids the nodes. On a node that is drained, the replacement comes
   first.
3. If they get no node within the deadline, capacity for the whole instance is reserved, and when it
   is, the instance is relocated there. If there is none within another deadline, and the instance
   serves no requests, its allocation is released, and it is placed wherever there is capacity.
4. If there is none, the policy gives up; the instance stays pending, and is placed when there is.
"""

from collections.abc import Mapping

from kilonova.instances.repair.policy import (
    CONDUCTOR,
    RepairDecision,
    RepairPolicy,
    RepairState,
)

_TERMINATION_SECONDS = 30.0
"""While pods of a released allocation terminate, there is less capacity."""


def ladder(state: RepairState) -> RepairDecision:
    """The next step."""
    replace = tuple(each.index for each in state.members if each.is_broken)
    if not state.was_allocated or all(each.is_broken or not each.node for each in state.members):
        return _await_allocation(state, replace)
    migrate = tuple(
        each.index
        for each in state.members
        if each.health == "NodeDraining" and not each.has_replacement and each.index != CONDUCTOR
    )
    if not state.is_waiting:
        return RepairDecision(replace, migrate)
    waited = (state.now - state.since).total_seconds()
    if waited < state.deadline:
        return RepairDecision(replace, migrate, recheck_after=state.deadline - waited)
    return _relocate(state, replace, migrate)


def _await_allocation(state: RepairState, replace: tuple[int, ...]) -> RepairDecision:
    """An allocation that was never complete, or is wholly lost: its members wait together, for a
    place anywhere."""
    if replace:
        return RepairDecision(replace)
    waited = (state.now - state.since).total_seconds()
    # Before an allocation is released, the deadlines have passed.
    is_released = state.allocation > 0 and not state.was_allocated and state.unschedulable
    deadline = min(state.deadline, _TERMINATION_SECONDS) if is_released else state.deadline
    if waited >= deadline:
        return RepairDecision(has_given_up=True)
    return RepairDecision(recheck_after=deadline - waited)


def _relocate(
    state: RepairState, replace: tuple[int, ...], migrate: tuple[int, ...]
) -> RepairDecision:
    if state.reservation == "Reserved":
        return RepairDecision(relocation="Relocate")
    if state.reservation_since is None:
        return RepairDecision(replace, migrate, "Reserve", recheck_after=state.deadline)
    waited = (state.now - state.reservation_since).total_seconds()
    if waited < state.deadline:
        recheck = state.deadline - waited
        return RepairDecision(replace, migrate, "Reserve", recheck_after=recheck)
    if state.is_serving:
        return RepairDecision(replace, migrate, "Reserve")
    return RepairDecision(relocation="Release")


POLICIES: Mapping[str, RepairPolicy] = {"ladder": ladder}
