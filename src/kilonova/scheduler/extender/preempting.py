"""Of what kube-scheduler would push out for a pod, what is worth it.

It counts resources, and knows neither devices nor gangs. A node is left out where the pod would not
fit after all, where somebody would have to go who must never, and where a gang would be left with
less than its minimum: it would hold GPUs and be of no use. A gang that goes as a whole may go. A
victim that the cache does not show, or no longer, cannot be judged, so its node is left out too.
Nothing is changed here: what would be is tried, and taken back.
"""

from collections.abc import Callable, Mapping, Set

from kilonova.api.schedulingnames import PREEMPTIBLE
from kilonova.scheduler.core.asks import Shape
from kilonova.scheduler.core.cluster import Cluster, Standing
from kilonova.scheduler.core.gangs import Group
from kilonova.scheduler.core.rooms import Rooms
from kilonova.scheduler.core.snapshot import Snapshot
from kilonova.scheduler.extender.wire import Victims
from kilonova.scheduler.objects import Pod

Find = Callable[[str], Pod | None]
"""The pod of a key, NAMESPACE/NAME."""


def worth_evicting(
    cluster: Cluster, rooms: Rooms, find: Find, shape: Shape, asked: Mapping[str, Victims]
) -> dict[str, Victims]:
    """The nodes on which letting these pods go makes room for a pod of a shape, and harms nobody
    in vain."""
    found: dict[str, Victims] = {}
    for node, victims in asked.items():
        if node not in cluster.snapshot:
            continue
        pods = _pods_on(cluster.snapshot, node, find, set(victims.uids))
        if (
            len(pods) == len(set(victims.uids))
            and all(_may_go(pod) for pod in pods.values())
            and not _harms_a_gang(cluster.standing, pods)
            and _makes_room(cluster.snapshot, rooms, shape, node, pods)
        ):
            found[node] = victims
    return found


def _pods_on(snapshot: Snapshot, node: str, find: Find, uids: set[str]) -> dict[str, Pod]:
    """Victims that are known to be there, by key."""
    booked = snapshot.pods_on[snapshot.row(node)]
    return {
        key: pod for key in booked if (pod := find(key)) is not None and pod.metadata.uid in uids
    }


def _may_go(pod: Pod) -> bool:
    return pod.metadata.annotations.get(PREEMPTIBLE) != "false"


def _harms_a_gang(standing: Mapping[str, Standing], victims: Mapping[str, Pod]) -> bool:
    for each in standing.values():
        lost = each.pods.keys() & victims.keys()
        if not lost:
            continue
        if not each.gang.preemptible:
            return True
        left = each.pods.keys() - lost
        if left and any(_falls_short(group, lost, left) for group in each.gang.groups):
            return True
    return False


def _falls_short(group: Group, lost: Set[str], left: Set[str]) -> bool:
    """Whether a group that loses pods is left with less than it needs."""
    pods = {member.pod for member in (*group.standing, *group.members)}
    return not lost.isdisjoint(pods) and len(pods & left) < group.minimum


def _makes_room(
    snapshot: Snapshot, rooms: Rooms, shape: Shape, node: str, victims: Mapping[str, Pod]
) -> bool:
    mark = snapshot.mark()
    snapshot.release_all(victims)
    room = int(rooms.room(shape)[snapshot.row(node)])
    snapshot.undo(mark)
    return room > 0
