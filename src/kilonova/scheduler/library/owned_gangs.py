"""PodGangs that a controller creates for a workload of its own.

Their pods have a scheduling gate until the gang names them. The controller writes the phase, the
times and some conditions of their status, the scheduler other conditions.
"""

from collections.abc import Iterable

from kilonova.api.grove import names
from kilonova.api.json import JsonObject
from kilonova.api.podgang import PodGang, PodGangStatus
from kilonova.kube.controllers.owned_objects import OwnedObjectWriter, T
from kilonova.kube.status import apply_status, encode_condition

_UNGATE: JsonObject = {
    "spec": {"schedulingGates": [{"name": names.POD_GANG_GATE, "$patch": "delete"}]}
}


async def ungate_pods(writer: OwnedObjectWriter[T], pods: Iterable[T]) -> None:
    """Remove the scheduling gate of gangs from pods, concurrently."""
    await writer.patch_all(pods, _UNGATE)


async def apply_gang_status(
    writer: OwnedObjectWriter[PodGang], gang: PodGang, wanted: PodGangStatus
) -> None:
    """Apply the fields of the controller, if they differ."""
    body = _encode_status(wanted)
    if body == _encode_status(_select_own_fields(gang.status, wanted)):
        return
    written = await apply_status(writer.client, writer.resource, gang.metadata, body)
    if written is not None:
        await writer.wait_for_cache([written])


def _select_own_fields(live: PodGangStatus, wanted: PodGangStatus) -> PodGangStatus:
    by_type = {each.type: each for each in live.conditions}
    types = [each.type for each in wanted.conditions]
    return PodGangStatus(
        phase=live.phase,
        conditions=tuple(by_type[each] for each in types if each in by_type),
        last_scheduled=live.last_scheduled,
        last_ready=live.last_ready,
    )


def _encode_status(status: PodGangStatus) -> JsonObject:
    times = {"lastScheduled": status.last_scheduled, "lastReady": status.last_ready}
    return {
        "phase": status.phase,
        "conditions": [encode_condition(each) for each in status.conditions],
        **{name: time for name, time in times.items() if time is not None},
    }
