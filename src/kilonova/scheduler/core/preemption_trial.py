"""A gang in the place of units that were let go, while it is found out which of them may stay."""

from collections.abc import Callable, Sequence

import numpy as np

from kilonova.scheduler.core.entitlement import Unit
from kilonova.scheduler.core.gangs import Gang
from kilonova.scheduler.core.giving import are_free
from kilonova.scheduler.core.labels import Flags
from kilonova.scheduler.core.nearness import clashes
from kilonova.scheduler.core.placing import Placer
from kilonova.scheduler.core.snapshot import Amounts, Booking, Snapshot

_TRIALS = 64
"""So often a gang is placed anew to see whether it can do without a unit."""

Taken = tuple[Unit, list[Booking]]
"""A unit that was let go, with what of it was still there."""


class Trial:
    """Books and releases in a snapshot; whoever makes it ends what it changed there."""

    def __init__(
        self,
        snapshot: Snapshot,
        placer: Placer,
        gang: Gang,
        bookings: Sequence[Booking],
        useful: Flags | None,
    ) -> None:
        self.bookings = bookings
        """Where the gang has its place now."""
        self._snapshot = snapshot
        self._placer = placer
        self._gang = gang
        self._useful = useful
        self._trials = _TRIALS
        shapes = {member.shape for group in gang.groups for member in group.members}
        names = sorted({name for shape in shapes for name, _ in shape.requests})
        self._columns = np.array([snapshot.column(name) for name in names], np.intp)
        self._free = self._all_free()

    def take_back(
        self,
        had: Sequence[Booking],
        accepts: Callable[[Sequence[Booking]], bool] = lambda _: True,
    ) -> bool:
        """Gives pods their very places back, if the gang keeps its place beside them or finds
        another that is accepted; False, and nothing is changed, if it does not."""
        total = self._total(had)
        if fit_again(self._snapshot, had):
            self._snapshot.book_all(had)
            self._free -= total
            return True
        if not self._trials or (total > self._free).any():
            return False
        self._trials -= 1
        mark = self._snapshot.mark()
        self._snapshot.release_all([booking.pod for booking in self.bookings])
        if fit_again(self._snapshot, had):
            self._snapshot.book_all(had)
            bookings = self._placer.place(self._gang)
            if bookings is not None and accepts(bookings):
                self.bookings = bookings
                self._free -= total
                self._snapshot.keep(mark)
                return True
            accepts(self.bookings)
        self._snapshot.undo(mark)
        return False

    def _total(self, had: Sequence[Booking]) -> Amounts:
        """What pods ask for where the gang may stand, of what the gang asks for."""
        total = np.zeros(len(self._snapshot.resources), np.int64)
        for booking in had:
            if self._useful is None or self._useful[booking.row]:
                columns, amounts = self._snapshot.request(booking.shape)
                np.add.at(total, columns, amounts)
        return total[self._columns]

    def _all_free(self) -> Amounts:
        """All that is free where the gang may stand, of what it asks for."""
        free = self._snapshot.free[self._columns, : self._snapshot.size]
        return np.maximum(free if self._useful is None else free[:, self._useful], 0).sum(axis=1)


def fit_again(snapshot: Snapshot, bookings: Sequence[Booking]) -> bool:
    """Whether pods may have the very places and devices back that they had."""
    if not all(are_free(snapshot, b.row, b.devices) for b in bookings):
        return False
    if any(clashes(snapshot, booking.member, booking.row) for booking in bookings):
        return False
    mark = snapshot.mark()
    snapshot.book_all(bookings)
    rows = sorted({booking.row for booking in bookings})
    fits = bool(
        (snapshot.free[:, rows] >= 0).all()
        and (snapshot.gpu_free[rows] >= 0).all()
        and not snapshot.claims.overdrawn(booking.claims for booking in bookings)
    )
    snapshot.undo(mark)
    return fits
