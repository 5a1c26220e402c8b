"""What would be moved in a picture, in names instead of rows: plain values, whose fields are their
JSON."""

from dataclasses import dataclass

from kilonova.scheduler.core.fit import Fit
from kilonova.scheduler.core.plan import NoRoom
from kilonova.scheduler.movelimits import MoveLimits, allowance
from kilonova.scheduler.movesearch import in_order, moves_worth_it
from kilonova.scheduler.picture import Picture
from kilonova.scheduler.reading.gpus import devices_text


@dataclass(frozen=True, slots=True)
class MovedPod:
    """A pod that would move, and the devices that it would get."""

    pod: str
    gang: str
    leaves: str
    goes: str
    devices: str


@dataclass(frozen=True, slots=True)
class ProposedMoves:
    """Moves that are made together; `lost_work` is in GPU-seconds."""

    pods: tuple[MovedPod, ...]
    makes_room_for: str
    emptied: tuple[str, ...]
    """Nodes on which no pod with GPUs stands any more."""
    lost_work: float


def proposed_moves(picture: Picture, limits: MoveLimits | None = None) -> ProposedMoves:
    """What a scheduler that starts now would move first, by its limits or by the usual ones."""
    cluster = picture.cluster()
    planner, snapshot = picture.planner(cluster), cluster.snapshot
    refusals = planner.plan(picture.waiting, picture.now).refusals
    waiting = in_order(each.gang for each in refusals if isinstance(each.why, NoRoom))
    budget = allowance(limits or MoveLimits(), [], 0, _MANY, picture.now)
    worth, keep = Fit.of(snapshot).worth, picture.not_yet.keys()
    found = moves_worth_it(cluster, planner, waiting, budget, picture.now, worth=worth, keep=keep)
    moves, names = found.consolidation.moves, snapshot.names
    pods = [
        MovedPod(
            leaves.pod,
            move.gang.name,
            names[leaves.row],
            names[goes.row],
            devices_text(goes.devices),
        )
        for move in moves
        for leaves in move.leaves
        for goes in move.bookings
        if goes.pod == leaves.pod
    ]
    left = {leaves.pod for move in moves for leaves in move.leaves}
    rows = {leaves.row for move in moves for leaves in move.leaves}
    rows -= {goes.row for move in moves for goes in move.bookings}
    emptied = [
        names[row]
        for row in rows
        if all(
            pod in left or booking.shape.gpu is None
            for pod, booking in snapshot.pods_on[row].items()
        )
    ]
    return ProposedMoves(
        tuple(sorted(pods, key=lambda each: each.pod)),
        found.gang.name if found.gang is not None else "",
        tuple(sorted(emptied)),
        sum(move.work for move in moves),
    )


_MANY = 1 << 40
"""Pods that are taken to have arrived: how many did is not in a picture."""
