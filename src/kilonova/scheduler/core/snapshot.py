"""The cluster as columns: a row for each node, a column for each resource.

Rows are stable: a node keeps its row while it is there, and a row of a node that went is given to
the next one. What is used is counted by **bookings**; every change of a row is noted in a log, so
that whoever keeps a vector over all rows brings only the changed ones up to date. A **mark** in the
journal of bookings lets a trial be taken back.

`nvidia.com/gpu` of `free` is always the number of devices that nobody uses and that are healthy;
so whole GPUs are a column like any other, while shares and MIG instances look at the devices.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kilonova.scheduler.core.asks import Shape, implied
from kilonova.scheduler.core.changes import Changes
from kilonova.scheduler.core.claimbook import Allocations, ClaimBook, Uses
from kilonova.scheduler.core.devices import WHOLE, Layout, Share
from kilonova.scheduler.core.gangs import Member
from kilonova.scheduler.core.labels import Labels, Rows
from kilonova.scheduler.core.neighbours import Neighbours
from kilonova.scheduler.core.nodes import Node, Taint

_FEW = 8

GPU = "nvidia.com/gpu"
PODS = "pods"

Amounts = NDArray[np.int64]

MOST = 1 << 50
"""No node has more of anything: sums over thousands of nodes or pods are still numbers."""
MOST_GPUS = 1024
"""More GPUs of a node are not looked at: each has its place in memory."""
_KEPT_SHAPES = 4096
"""Of so many shapes it is remembered which columns they need; the oldest is worked out anew."""


@dataclass(frozen=True, slots=True)
class Booking:
    """A pod that is counted against a node. `devices` are its GPUs, as far as they are known;
    `claims` what each of its claims has."""

    member: Member
    row: int
    devices: tuple[Share, ...] = ()
    gang: str = ""
    claims: Allocations = ()

    @property
    def pod(self) -> str:
        return self.member.pod

    @property
    def shape(self) -> Shape:
        return self.member.shape


def mig_resource(profile: str) -> str:
    """Resource of a node whose GPUs were partitioned by somebody else."""
    return f"nvidia.com/mig-{profile.replace('+', '.')}"


class Snapshot:
    """Nodes, what they have, and what of it is booked."""

    def __init__(self) -> None:
        self.resources: dict[str, int] = {PODS: 0, "cpu": 1, "memory": 2, GPU: 3}
        self.names: list[str] = []
        self.labels = Labels()
        self.allocatable: Amounts = np.zeros((4, 16), np.int64)
        self.used: Amounts = np.zeros((4, 16), np.int64)
        self.free: Amounts = np.zeros((4, 16), np.int64)
        self.alive: NDArray[np.bool_] = np.zeros(16, np.bool_)
        self.gpu_free: NDArray[np.int16] = np.zeros((16, 8), np.int16)
        self.gpu_mask: NDArray[np.uint16] = np.zeros((16, 8), np.uint16)
        self.gpu_memory: NDArray[np.int64] = np.zeros(16, np.int64)
        self.gpu_missing: NDArray[np.int16] = np.zeros(16, np.int16)
        """Devices that the layout shows and the node does not offer."""
        self.layouts: NDArray[np.int32] = np.zeros(16, np.int32)
        self.taints: NDArray[np.int32] = np.zeros(16, np.int32)
        self.layout_of: list[Layout] = [Layout.of_unknown(0)]
        self.taint_sets: list[tuple[Taint, ...]] = [()]
        self.bookings: dict[str, Booking] = {}
        self.pods_on: list[dict[str, Booking]] = []
        self.changes = Changes()
        """Rows on which something was booked, released, or else changed."""
        self.fact_changes = Changes()
        """Rows whose labels, taints, devices or resources changed."""
        self.neighbours = Neighbours()
        """How many pods of which kind are where, for pods with rules about others."""
        self._nodes: list[Node | None] = []
        self._rows: dict[str, int] = {}
        self._vacant: list[int] = []
        self._layout_ids: dict[Layout, int] = {self.layout_of[0]: 0}
        self._taint_ids: dict[tuple[Taint, ...], int] = {(): 0}
        self._columns: dict[Shape, tuple[Rows, Amounts]] = {}
        self._journal: list[tuple[bool, Booking]] = []
        self._marks: list[int] = []
        """Where in the journal each trial began that has not ended."""
        self.claims = ClaimBook(self.names, self._rows, self.labels)
        """Devices that pods claim, and who has them."""
        self._ranks: NDArray[np.int64] | None = None
        self.rank_changes = 0
        """Counts how often the order of names changed."""
        self.node_changes = 0
        """Counts how often a node joined, left, or became another."""

    # Nodes.

    @property
    def size(self) -> int:
        """Number of rows, of nodes that are there and of vacant ones."""
        return len(self.names)

    def __contains__(self, node: str) -> bool:
        return node in self._rows

    def row(self, node: str) -> int:
        return self._rows[node]

    def node(self, row: int) -> Node:
        node = self._nodes[row]
        assert node is not None, f"row {row} is vacant"
        return node

    def nodes(self) -> list[Node]:
        """All nodes by name."""
        return [self.node(self._rows[name]) for name in sorted(self._rows)]

    def layout(self, row: int) -> Layout:
        """The GPUs of a node."""
        return self.layout_of[int(self.layouts[row])]

    @property
    def ranks(self) -> NDArray[np.int64]:
        """Position of each row's node in the order of names: what decides between equals."""
        if self._ranks is None or len(self._ranks) != self.size:
            self._ranks = np.full(self.size, self.size, np.int64)
            for rank, name in enumerate(sorted(self._rows)):
                self._ranks[self._rows[name]] = rank
        return self._ranks

    def state(self, row: int) -> bytes:
        """Equal for rows that have and use the same, whatever their nodes are called."""
        facts = (int(self.layouts[row]), int(self.taints[row]), int(self.gpu_missing[row]))
        amounts = (self.allocatable[:, row], self.used[:, row], self.free[:, row])
        devices = (self.gpu_free[row], self.gpu_mask[row])
        return b"".join((repr(facts).encode(), *(each.tobytes() for each in (*amounts, *devices))))

    def put_node(self, node: Node) -> int:
        """Takes a node, or what has changed of it. Bookings stay."""
        row = self._rows.get(node.name)
        if row is None:
            row = self._new_row(node.name)
        layout = node.layout or Layout.of_unknown(_held(node.allocatable.get(GPU, 0), MOST_GPUS))
        relaid = self._nodes[row] is None or self.layout(row) != layout
        self.node_changes += self._nodes[row] != node
        self._nodes[row] = node
        self.labels.put(row, node.name, node.labels)
        self.claims.forget(row)
        self.allocatable[:, row] = 0
        for name, amount in node.allocatable.items():
            column = self.column(name)
            self.allocatable[column, row] = _held(amount, MOST)
        for name, column in self.resources.items():
            if name not in node.allocatable and (amount := implied(name)):
                self.allocatable[column, row] = amount
        self.taints[row] = self._intern_taints(node.taints)
        if relaid:
            self._lay_out(row, layout)
        healthy = sum(gpu.healthy for gpu in layout.gpus)
        self.gpu_missing[row] = max(0, healthy - node.allocatable.get(GPU, 0))
        self.refresh([row])
        self.fact_changes.note(row)
        return row

    def remove_node(self, name: str) -> None:
        """Forgets a node and what was booked on it."""
        row = self._rows.pop(name)
        for pod in list(self.pods_on[row]):
            self.release(pod)
        self._nodes[row] = None
        self.labels.drop(row)
        self.claims.forget(row)
        self.alive[row] = False
        self.allocatable[:, row] = self.used[:, row] = self.free[:, row] = 0
        self.gpu_free[row] = self.gpu_mask[row] = 0
        self.changes.note(row)
        self.fact_changes.note(row)
        self._vacant.append(row)
        self.node_changes += 1
        self._reorder()

    def column(self, resource: str) -> int:
        """Column of a resource; a resource that no node has yet gets one, too."""
        column = self.resources.get(resource)
        if column is None:
            column = self.resources[resource] = len(self.resources)
            for name in _BY_RESOURCE:
                array: Amounts = getattr(self, name)
                setattr(self, name, np.pad(array, ((0, 1), (0, 0))))
            if amount := implied(resource):
                self.allocatable[column, self.alive] = self.free[column, self.alive] = amount
        return column

    def request(self, shape: Shape) -> tuple[Rows, Amounts]:
        """Columns of what a shape asks for, and how much."""
        found = self._columns.get(shape)
        if found is None:
            columns = np.array([self.column(name) for name, _ in shape.requests], np.intp)
            # What is more than the most fits nowhere, but its sums are numbers still.
            amounts = np.array([_held(amount, MOST + 1) for _, amount in shape.requests], np.int64)
            found = self._columns[shape] = columns, amounts
            if len(self._columns) > _KEPT_SHAPES:
                del self._columns[next(iter(self._columns))]
            if shape.peers is not None:
                self.neighbours.awake = True
        return found

    def copy(self) -> "Snapshot":
        """The same nodes and bookings, which change by themselves from now on."""
        other = Snapshot()
        other.__dict__.update(self.__dict__)
        for name in (*_BY_RESOURCE, *_BY_ROW, *_TABLES):
            setattr(other, name, getattr(self, name).copy())
        other.pods_on = [pods.copy() for pods in self.pods_on]
        other.labels = self.labels.copy()
        other.neighbours = self.neighbours.copy()
        other.claims = self.claims.copy(other.names, other._rows, other.labels)
        other.changes, other.fact_changes = Changes(), Changes()
        other._journal, other._marks = [], []
        return other

    # Bookings.

    def book(self, booking: Booking) -> None:
        """Counts a pod against its node."""
        self.book_all([booking])

    def book_all(self, bookings: Sequence[Booking]) -> None:
        """Counts many pods: rows are brought up to date once."""
        for booking in bookings:
            assert booking.pod not in self.bookings, f"{booking.pod} is booked already"
            self.bookings[booking.pod] = booking
            self.pods_on[booking.row][booking.pod] = booking
        self._count_all(bookings, 1)
        if self._marks:
            self._journal.extend((True, booking) for booking in bookings)
        self.refresh([booking.row for booking in bookings])
        if self.claims.awake:
            self.changes.note_all(self.claims.book(_uses(bookings)))

    def amend(self, booking: Booking) -> None:
        """Takes a booking in the place of one of the same pod that uses the same."""
        self.bookings[booking.pod] = self.pods_on[booking.row][booking.pod] = booking

    def release(self, pod: str) -> Booking:
        """Takes a booking back."""
        return self.release_all([pod])[0]

    def release_all(self, pods: Iterable[str]) -> list[Booking]:
        """Takes bookings back: rows are brought up to date once."""
        released: list[Booking] = []
        for pod in pods:
            booking = self.bookings.pop(pod)
            del self.pods_on[booking.row][pod]
            released.append(booking)
        self._count_all(released, -1)
        if self._marks:
            self._journal.extend((False, booking) for booking in released)
        self.refresh([booking.row for booking in released])
        if self.claims.awake:
            self.changes.note_all(self.claims.release(_uses(released)))
        return released

    def mark(self) -> int:
        """Begins a trial, which `undo` or `keep` ends. Trials may be within each other."""
        self._marks.append(len(self._journal))
        return len(self._marks) - 1

    def undo(self, mark: int) -> None:
        """Takes back all that was booked and released since a mark."""
        undone = self._journal[self._marks[mark] :]
        for booked, booking in reversed(undone):
            if booked:
                del self.bookings[booking.pod]
                del self.pods_on[booking.row][booking.pod]
            else:
                self.bookings[booking.pod] = booking
                self.pods_on[booking.row][booking.pod] = booking
        booked = [booking for booked, booking in undone if booked]
        released = [booking for booked, booking in undone if not booked]
        self._count_all(booked, -1)
        self._count_all(released, 1)
        if undone:
            self.refresh([booking.row for _, booking in undone])
        if self.claims.awake:
            self.changes.note_all(self.claims.unbook(_uses(booked)))
            self.changes.note_all(self.claims.release(_uses(released), -1))
        del self._journal[self._marks[mark] :]
        self.end(mark)

    def keep(self, mark: int) -> list[Booking]:
        """Ends a trial; says what was booked in it and is still."""
        booked = [
            booking
            for was_booked, booking in self._journal[self._marks[mark] :]
            if was_booked and self.bookings.get(booking.pod) is booking
        ]
        self.end(mark)
        return booked

    def end(self, mark: int) -> None:
        """Ends a trial and those within it, which an error may have left open; all of it stays."""
        del self._marks[mark:]
        if not self._marks:
            self._journal.clear()

    def note_facts(self, rows: Iterable[int]) -> None:
        """What nodes are or have changed, beside what is said of the nodes themselves."""
        rows = list(rows)
        self.changes.note_all(rows)
        self.fact_changes.note_all(rows)

    def refresh(self, rows: Sequence[int]) -> None:
        """Works out anew what is free on rows, and notes that they changed."""
        if not rows:
            return
        if len(rows) == 1:
            self._refresh_row(rows[0])
            self.changes.note(rows[0])
            return
        changed = np.unique(np.array(rows, np.intp))
        self.free[:, changed] = self.allocatable[:, changed] - self.used[:, changed]
        idle = (self.gpu_free[changed] == WHOLE) & (self.gpu_mask[changed] == 0)
        column = self.resources[GPU]
        self.free[column, changed] = np.minimum(
            self.free[column, changed], idle.sum(axis=1) - self.gpu_missing[changed]
        )
        self.changes.note_all(changed.tolist())

    def _refresh_row(self, row: int) -> None:
        self.free[:, row] = self.allocatable[:, row] - self.used[:, row]
        count = len(self.layout(row).gpus)
        masks = self.gpu_mask[row, :count].tolist()
        free = self.gpu_free[row, :count].tolist()
        idle = sum(milli == WHOLE and not mask for milli, mask in zip(free, masks, strict=True))
        column = self.resources[GPU]
        idle -= int(self.gpu_missing[row])
        self.free[column, row] = min(int(self.free[column, row]), idle)

    def _count_all(self, bookings: Sequence[Booking], sign: int) -> None:
        self._count_amounts(bookings, sign)
        if self.neighbours.awake:
            self.neighbours.count(((booking.member, booking.row) for booking in bookings), sign)

    def _count_amounts(self, bookings: Sequence[Booking], sign: int) -> None:
        """Counts pods by shape: a gang of a thousand equal pods is a few operations."""
        if len(bookings) < _FEW:
            for booking in bookings:
                self._count(booking, sign)
            return
        by_shape: dict[Shape, list[int]] = {}
        devices: list[tuple[int, int, int, int]] = []
        for booking in bookings:
            by_shape.setdefault(booking.shape, []).append(booking.row)
            for share in booking.devices:
                devices.append((booking.row, share.index, share.milli, share.mask))
            if not booking.devices and booking.shape.gpu is not None:
                self._count_instances(booking, sign)
        for shape, rows in by_shape.items():
            columns, amounts = self.request(shape)
            unique, counts = np.unique(np.array(rows, np.intp), return_counts=True)
            self.used[np.ix_(columns, unique)] += sign * amounts[:, None] * counts[None, :]
        if devices:
            row, index, milli, mask = np.array(devices, np.int64).T
            sizes = np.array([len(layout.gpus) for layout in self.layout_of])
            whole = (mask == 0) & (index < sizes[self.layouts[row]])
            np.subtract.at(self.gpu_free, (row[whole], index[whole]), sign * milli[whole])
            for split in np.unique(row[mask != 0]).tolist():
                self._split(split)

    def _count_instances(self, booking: Booking, sign: int) -> None:
        gpu = booking.shape.gpu
        if gpu is not None and gpu.profile:
            column = self.column(mig_resource(gpu.profile))
            self.used[column, booking.row] += sign * gpu.count

    def _count(self, booking: Booking, sign: int) -> None:
        columns, amounts = self.request(booking.shape)
        row = booking.row
        self.used[columns, row] += sign * amounts
        if not booking.devices:
            self._count_instances(booking, sign)
        size = len(self.layout(row).gpus)
        for share in booking.devices:
            if not share.mask and share.index < size:
                self.gpu_free[row, share.index] -= sign * share.milli
        if any(share.mask for share in booking.devices):
            self._split(row)

    def _split(self, row: int) -> None:
        """Works out anew which slices of a node's devices are occupied: others than we may have
        given the same one twice."""
        self.gpu_mask[row] = 0
        size = len(self.layout(row).gpus)
        for booking in self.pods_on[row].values():
            for share in booking.devices:
                if share.mask and share.index < size:
                    self.gpu_mask[row, share.index] |= share.mask

    def _new_row(self, name: str) -> int:
        if self._vacant:
            row = self._vacant.pop()
            self.names[row] = name
        else:
            row = len(self.names)
            self.names.append(name)
            self._nodes.append(None)
            self.pods_on.append({})
            if row == len(self.alive):
                self._grow()
        self._rows[name] = row
        self.alive[row] = True
        self._reorder()
        return row

    def _reorder(self) -> None:
        self._ranks = None
        self.rank_changes += 1

    def _grow(self) -> None:
        more = len(self.alive)
        for name in _BY_ROW:
            array: NDArray[np.generic] = getattr(self, name)
            width = [(0, more)] + [(0, 0)] * (array.ndim - 1)
            setattr(self, name, np.pad(array, width))
        for name in _BY_RESOURCE:
            setattr(self, name, np.pad(getattr(self, name), ((0, 0), (0, more))))

    def _intern_taints(self, taints: tuple[Taint, ...]) -> int:
        found = self._taint_ids.get(taints)
        if found is None:
            found = self._taint_ids[taints] = len(self.taint_sets)
            self.taint_sets.append(taints)
        return found

    def _lay_out(self, row: int, layout: Layout) -> None:
        found = self._layout_ids.get(layout)
        if found is None:
            found = self._layout_ids[layout] = len(self.layout_of)
            self.layout_of.append(layout)
        self.layouts[row] = found
        width = self.gpu_free.shape[1]
        if len(layout.gpus) > width:
            wider = ((0, 0), (0, len(layout.gpus) - width))
            self.gpu_free = np.pad(self.gpu_free, wider)
            self.gpu_mask = np.pad(self.gpu_mask, wider)
        self.gpu_free[row] = self.gpu_mask[row] = 0
        for position, gpu in enumerate(layout.gpus):
            self.gpu_free[row, position] = WHOLE if gpu.healthy else 0
        self.gpu_memory[row] = min((gpu.memory for gpu in layout.gpus), default=0)
        for booking in self.pods_on[row].values():
            for share in booking.devices:
                if not share.mask and share.index < len(layout.gpus):
                    self.gpu_free[row, share.index] -= share.milli
        self._split(row)


def _uses(bookings: Iterable[Booking]) -> Uses:
    """What pods have claimed."""
    return ((each.pod, each.member.claims, each.claims) for each in bookings if each.claims)


def amounts_of(snapshot: Snapshot, row: int) -> Mapping[str, int]:
    """What a node has free, by name."""
    return {name: int(snapshot.free[column, row]) for name, column in snapshot.resources.items()}


def _held(amount: int, most: int) -> int:
    return max(0, min(amount, most))


_BY_RESOURCE = ("allocatable", "used", "free")
_BY_ROW = (
    "alive",
    "gpu_free",
    "gpu_mask",
    "gpu_memory",
    "gpu_missing",
    "layouts",
    "taints",
)
_TABLES = (
    "resources",
    "names",
    "bookings",
    "layout_of",
    "taint_sets",
    "_nodes",
    "_rows",
    "_vacant",
    "_layout_ids",
    "_taint_ids",
    "_columns",
)
