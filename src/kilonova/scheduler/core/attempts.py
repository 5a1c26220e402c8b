"""One try to place a gang: all that must be placed, or nothing.

Parts are placed from the outside in. A part that must stand within one domain tries the domains
that could hold it, the tightest first, and takes back what it booked where a child finds no place.
What a gang has beyond its minimum follows into the same domains as far as there is room.

That is quick, and finds most places. Where it finds none although there could be one, all choices
are searched (see `backtracking`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby, product
from typing import TypeVar

import numpy as np

from kilonova.scheduler.core import taking
from kilonova.scheduler.core.asks import Shape
from kilonova.scheduler.core.backtracking import Place, claims_cost, search
from kilonova.scheduler.core.domains import candidates, could_hold
from kilonova.scheduler.core.gangs import Apart, Gang, Group, Member
from kilonova.scheduler.core.giving import bookings_for, shares_of
from kilonova.scheduler.core.labels import Rows
from kilonova.scheduler.core.nearness import objections
from kilonova.scheduler.core.parts import Part, tree
from kilonova.scheduler.core.rivals import kept_apart, one_per_domain
from kilonova.scheduler.core.rooms import Counts, Rooms
from kilonova.scheduler.core.search_budget import SearchBudget
from kilonova.scheduler.core.seating import Seating
from kilonova.scheduler.core.snapshot import Booking, Snapshot

_TRIALS, _TRIALS_PER_PART = 256, 3
"""Domains that are tried for one gang: the larger it is, the more it takes to place it at all. The
bound on domains leaves few that fail."""

_MOST_DOMAINS = 16
"""So many domains are tried for pods that want to be near each other."""

T = TypeVar("T")


class Attempt:
    """One try to place one gang, which searches all choices only as far as a budget goes."""

    def __init__(
        self,
        snapshot: Snapshot,
        rooms: Rooms,
        levels: tuple[str, ...],
        gang: Gang,
        budget: SearchBudget,
    ) -> None:
        self._snapshot = snapshot
        self._rooms = rooms
        self._levels = levels
        self._gang = gang
        self._budget = budget
        self._trials = SearchBudget(_TRIALS + _TRIALS_PER_PART * _parts(gang))
        self._seating = Seating(snapshot, rooms, gang.name, self._reachable, self._trials)
        self._stands: dict[str, Rows] = {}
        """Rows among which a group's minimum was placed."""
        self._pins: Mapping[str, int] = {}
        """Rows on which claims get their devices that several pods use."""

    def place(self, rows: Rows, *, searches: bool) -> list[Booking] | None:
        root = tree(self._gang)
        if not could_hold(self._snapshot, self._rooms, root, rows):
            return None
        mark = self._snapshot.mark()
        for allowed in self._narrowed(root, rows):
            for pins in self._possible_pins(root, allowed):
                self._pins = pins
                if self._tried(self._place, root, allowed):
                    for leaf in root.leaves():
                        self._add_extras(leaf)
                    return self._in_rank(root, self._snapshot.keep(mark))
        self._snapshot.undo(mark)
        return self._place_by_search(root, rows) if searches else None

    def _place_by_search(self, root: Part, rows: Rows) -> list[Booking] | None:
        """Where the gang has a place at all."""
        *_, allowed = self._apart(self._gang.apart, rows)
        places = search(self._snapshot, self._rooms, root, allowed, self._gang.name, self._budget)
        if places is None:
            return None
        mark = self._snapshot.mark()
        if not self._book_places(places):
            self._snapshot.undo(mark)
            return None
        self._add_extras_around(root, allowed)
        return self._in_rank(root, self._snapshot.keep(mark))

    def _book_places(self, places: list[Place]) -> bool:
        """Who takes whole devices comes first: of shares it is known which devices they want."""
        for place in sorted(places, key=lambda each: bool(each.shares)):
            if self._rooms.room(place.member.shape)[place.row] < 1:
                return False  # another state of the cluster does not have what this one has
            devices = shares_of(self._snapshot, place.row, place.member.shape, place.shares)
            if devices is None:
                one = bookings_for(self._snapshot, place.row, [place.member], self._gang.name)
            else:
                one = [Booking(place.member, place.row, devices, self._gang.name)]
            self._snapshot.book_all(one)
        return True

    def _add_extras_around(self, part: Part, rows: Rows) -> None:
        """What groups have beyond their minimum, in the domains where that stands."""
        level = part.pack.required
        if level:
            at = [self._snapshot.row(node) for node in part.anchors if node in self._snapshot]
            for leaf in part.leaves():
                pods = leaf.group.members[: leaf.group.needed] if leaf.group is not None else ()
                at += [self._snapshot.bookings[member.pod].row for member in pods]
            if at:
                here = self._snapshot.labels.domains(level, np.array(at[-1:], np.intp))
                rows = rows[self._snapshot.labels.domains(level, rows) == here[0]]
        for child in part.children:
            self._add_extras_around(child, rows)
        if part.group is not None and (part.needs_pods or self._place(part, rows)):
            if part.needs_pods:
                self._stands[part.group.name] = rows
            self._add_extras(part)

    def _narrowed(self, root: Part, rows: Rows) -> Iterator[Rows]:
        """Rows to try. Pods that want to be near others of the gang follow the first of them: where
        that one led them astray, single domains are tried."""
        for allowed in self._apart(self._gang.apart, rows):
            yield allowed
            for level in _near_levels(root):
                domains = candidates(self._snapshot, self._rooms, root, level, allowed)
                yield from domains[:_MOST_DOMAINS]

    def _in_rank(self, root: Part, bookings: list[Booking]) -> list[Booking]:
        """In the order of the gang, whoever was placed first."""
        if all(len(leaf.wanted) < 2 for leaf in root.leaves()):
            return bookings
        members = (member for group in self._gang.groups for member in group.members)
        ranks = {member.pod: rank for rank, member in enumerate(members)}
        return sorted(bookings, key=lambda booking: ranks[booking.pod])

    def _possible_pins(self, root: Part, rows: Rows) -> Iterator[Mapping[str, int]]:
        """Where claims that several pods use may get their devices: all of them must find room
        from there. Claims of one pod get theirs on the same node."""
        sharers: dict[str, dict[Shape, int]] = {}
        joined: dict[str, set[str]] = {}
        for leaf in root.leaves():
            for shape, number in leaf.wanted:
                claims = self._snapshot.claims.undecided(shape.claims)
                together = set[str]().union(claims, *(joined.get(claim, ()) for claim in claims))
                joined.update((claim, together) for claim in sorted(together))
                for claim in claims:
                    shapes = sharers.setdefault(claim, {})
                    shapes[shape] = shapes.get(shape, 0) + number
        parts = list({id(together): together for together in joined.values()}.values())
        choices: list[list[int]] = []
        for together in parts:
            shapes = {shape: n for claim in sorted(together) for shape, n in sharers[claim].items()}
            choices.append(self._pin_rows(shapes, rows))
        for number, chosen in enumerate(product(*choices)):
            # Each choice is worked out again for all nodes. What is left out is for the search.
            if number and not self._budget.spend(2 * claims_cost(len(rows))):
                return
            pins = zip(parts, chosen, strict=True)
            yield {claim: row for together, row in pins for claim in together}

    def _pin_rows(self, shapes: Mapping[Shape, int], rows: Rows) -> list[int]:
        """Rows with room for each of some shapes; those with room for all of their pods first."""
        rooms = [self._rooms.room(shape)[rows] for shape in shapes]
        least = np.minimum.reduce(rooms)
        enough = least >= sum(shapes.values())
        keys = self._rooms.keys(next(iter(shapes)))[rows]
        order = np.lexsort((-keys, ~enough))
        return rows[order][least[order] > 0].tolist()

    def _reachable(self, member: Member, rows: Rows) -> Rows:
        """Rows from which a pod reaches the devices that it shares with others."""
        for claim in self._snapshot.claims.undecided(member.shape.claims):
            if claim in self._pins:
                rows = rows[rows == self._pins[claim]]
        return rows

    def _apart(self, apart: Apart | None, rows: Rows) -> Iterator[Rows]:
        """Rows in domains where fewest of the others stand; if they must not meet, only where
        none does."""
        if apart is None:
            yield rows
            return
        domains = self._snapshot.labels.domains(apart.level, rows)
        taken = np.zeros(len(self._snapshot.labels.column(apart.level).values) + 1, np.int64)
        for node in apart.others:
            if node in self._snapshot:
                row = np.array([self._snapshot.row(node)], np.intp)
                taken[self._snapshot.labels.domains(apart.level, row)[0]] += 1
        met = taken[domains]
        for most in [0] if apart.required else np.unique(met).tolist():
            yield rows[(met <= most) & (domains >= 0)] if apart.required else rows[met <= most]

    def _place(self, part: Part, rows: Rows) -> bool:
        # What needs nothing now keeps nobody back; what it has beyond that follows if it can.
        return self._place_packed(part, rows) or not part.needs_pods

    def _place_packed(self, part: Part, rows: Rows) -> bool:
        if not part.pack.required:
            return self._place_near(part, rows)
        for domain in candidates(self._snapshot, self._rooms, part, part.pack.required, rows):
            if self._tried(self._place_near, part, domain):
                return True
        return False

    def _place_near(self, part: Part, rows: Rows) -> bool:
        """Within one domain of the preferred level, else in few."""
        if part.pack.preferred:
            for domain in candidates(self._snapshot, self._rooms, part, part.pack.preferred, rows):
                if self._tried(self._place_inside, part, domain):
                    return True
        return self._place_inside(part, rows)

    def _tried(self, place: Callable[[T, Rows], bool], what: T, rows: Rows) -> bool:
        if not self._trials.spend():
            return False
        mark = self._snapshot.mark()
        if place(what, rows):
            self._snapshot.keep(mark)
            return True
        self._snapshot.undo(mark)
        return False

    def _place_inside(self, part: Part, rows: Rows) -> bool:
        if part.group is not None:
            return self._fill(part, part.group, part.group.needed, rows)
        if len(part.children) < 2:
            return self._place_all(part.children, rows)
        if self._tried(self._place_all, part.children, rows):
            return True
        scarcest = tuple(
            sorted(part.children, key=lambda child: self._scarcity(child, rows), reverse=True)
        )
        return scarcest != part.children and self._place_all(scarcest, rows)

    def _place_all(self, parts: Sequence[Part], rows: Rows) -> bool:
        return all(self._place(part, rows) for part in parts)

    def _scarcity(self, part: Part, rows: Rows) -> float:
        """Which part of the room that there is for any of its shapes a part takes, at most."""
        shares = (
            number / max(1, int(self._rooms.room(shape)[rows].sum()))
            for leaf in part.leaves()
            for shape, number in leaf.wanted
        )
        return max(shares, default=0.0)

    def _fill(self, leaf: Part, group: Group, number: int, rows: Rows) -> bool:
        self._stands[group.name] = rows
        members = list(group.members[:number])
        if group.segments is not None and len({member.shape for member in members}) > 1:
            return self._seating.seat_whole(group, members, rows)
        return all(
            self._fill_alike(leaf, group, alike[0].shape, alike, rows)
            for alike in self._scarcest_first(members, rows)
        )

    def _scarcest_first(self, members: list[Member], rows: Rows) -> list[list[Member]]:
        """Pods by what they ask for: those first for which there is least room."""
        kinds: dict[Shape, list[Member]] = {}
        for member in members:
            kinds.setdefault(member.shape, []).append(member)
        if len(kinds) < 2:
            return list(kinds.values())

        def room(alike: list[Member]) -> float:
            return float(self._rooms.room(alike[0].shape)[rows].sum()) / len(alike)

        return sorted(kinds.values(), key=room)

    def _fill_alike(
        self, leaf: Part, group: Group, shape: Shape, members: list[Member], rows: Rows
    ) -> bool:
        if self._differ(members):
            return self._seating.seat_whole(group, members, rows)
        room = self._room(members, rows)
        taken = self._take(leaf, group, shape, rows, room, len(members))
        if int(taken.sum()) < len(members):
            return False
        self._book(group, shape, members, rows, taken)
        return True

    def _differ(self, members: list[Member]) -> bool:
        """Whether each of some pods of one shape changes where the next may stand, or others keep
        only some of them away."""
        neighbours, shape = self._snapshot.neighbours, members[0].shape
        if kept_apart(members) is None or self._snapshot.claims.couples(shape.claims):
            return True
        if not neighbours.repels:
            return False
        return len({neighbours.repelling(member) for member in members}) > 1

    def _room(self, members: list[Member], rows: Rows) -> Counts:
        shape = members[0].shape
        room = self._rooms.room(shape)[rows]
        against = objections(self._snapshot, members[0])
        if against is not None:
            room = np.where(against[rows] == 0, room, 0)
        level = kept_apart(members)
        if level:
            room = one_per_domain(self._snapshot, level, rows, room, self._rooms.keys(shape)[rows])
        return room

    def _take(
        self, leaf: Part, group: Group, shape: Shape, rows: Rows, room: Counts, number: int
    ) -> Counts:
        ranks = self._snapshot.ranks[rows]
        if group.segments is not None:
            domains = self._snapshot.labels.domains(group.segments.level, rows)
            return taking.whole_segments(room, domains, ranks, group.segments.size, number)
        near = leaf.pack.preferred or self._gang.pack.preferred
        if near:
            domains = self._snapshot.labels.domains(near, rows)
            return taking.fewest_domains(room, domains, ranks, number)
        if leaf.pack or self._gang.pack:
            return taking.fewest_nodes(room, ranks, number)
        return taking.best_nodes(room, self._rooms.keys(shape)[rows], number)

    def _book(
        self, group: Group, shape: Shape, members: list[Member], rows: Rows, taken: Counts
    ) -> None:
        """Members in order of rank on the rows in order of the topology."""
        used = np.flatnonzero(taken)
        order = self._in_topology(rows[used])
        if group.segments is not None:
            domains = self._snapshot.labels.domains(group.segments.level, rows[used])
            order = order[
                taking.by_segments(domains[order], taken[used][order], group.segments.size)
            ]
        bookings: list[Booking] = []
        for row, count in zip(rows[used][order].tolist(), taken[used][order].tolist(), strict=True):
            some = members[len(bookings) : len(bookings) + count]
            bookings.extend(bookings_for(self._snapshot, row, some, self._gang.name))
        self._snapshot.book_all(bookings)

    def _in_topology(self, rows: Rows) -> Rows:
        columns = [self._snapshot.labels.places(level, rows) for level in self._levels]
        return np.lexsort((self._snapshot.ranks[rows], *reversed(columns)))

    def _add_extras(self, leaf: Part) -> None:
        """What a group has beyond its minimum, as far as there is room."""
        group = leaf.group
        assert group is not None
        rows = self._stands.get(group.name)
        extras = list(group.members[group.needed :])
        if rows is None or not extras:
            return
        if group.segments is not None:
            extras = self._complete_segment(group, extras, rows)
            if len({member.shape for member in extras}) > 1:
                self._seating.seat_some(group, extras, rows)
                return
        for shape, same in groupby(extras, key=lambda member: member.shape):
            members = list(same)
            if self._differ(members):
                self._seating.seat_some(group, members, rows)
                continue
            room = self._room(members, rows)
            taken = self._take(leaf, group, shape, rows, room, len(members))
            self._book(group, shape, members[: int(taken.sum())], rows, taken)

    def _complete_segment(self, group: Group, extras: list[Member], rows: Rows) -> list[Member]:
        """Adds to the segment in which the minimum ends; the rest begins a new one."""
        assert group.segments is not None
        begun = group.needed % group.segments.size
        if not begun:
            return extras
        last = self._snapshot.bookings[group.members[group.needed - 1].pod].row
        domains = self._snapshot.labels.domains(group.segments.level, np.append(rows, last))
        missing = group.segments.size - begun
        self._seating.seat(extras[:missing], rows[domains[:-1] == domains[-1]])
        return extras[missing:]


def _parts(gang: Gang) -> int:
    """How many domains are chosen at most for a gang."""
    segments = sum(
        len(group.members) // max(1, group.segments.size) + 1
        for group in gang.groups
        if group.segments is not None
    )
    return len(gang.groups) + len(gang.bundles) + segments


def _near_levels(root: Part) -> list[str]:
    """Levels within a domain of which pods of a gang want to be near some others."""
    shapes = [shape for leaf in root.leaves() for shape, _ in leaf.wanted]
    peers = [shape.peers for shape in shapes if shape.peers is not None]
    return list(dict.fromkeys(term.level for each in peers for term in each.near))
