"""GPUs as cells: one per device, in the colour of the workload that uses it. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kilonova.component.command.output.colours import assign_owner_colours, paint_with
from kilonova.console.rows.model import NodeRow, PodRow

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_WHOLE_DEVICE = 0.999

FREE, LOST, HELD, PARTIAL, ELLIPSIS = "·", "×", "█", "▄", "…"
MAX_CELLS = 64
"""Cells drawn per node: the capacity of a Node object may be any number."""


@dataclass(frozen=True, slots=True)
class OwnerColours:
    """The colour of each owner, or its letter if there are no colours."""

    coloured: bool
    slots: Mapping[str, int]
    """The number of its colour; without colours, that of its letter."""

    @classmethod
    def assign(cls, names: Iterable[str], coloured: bool) -> "OwnerColours":
        """Assign colours to owners."""
        if coloured:
            return cls(coloured, assign_owner_colours(names))
        return cls(coloured, {name: index for index, name in enumerate(sorted(set(names)))})

    def draw_cell(self, owner: str, share: float) -> str:
        """The cell of a device of which an owner uses a share."""
        if self.coloured:
            return self.paint(owner, HELD if share >= _WHOLE_DEVICE else PARTIAL)
        letter = self._letter(owner)
        return letter if share >= _WHOLE_DEVICE else letter.lower()

    def paint(self, owner: str, text: str) -> str:
        """Text in the colour of an owner; unchanged if the owner has none."""
        slot = self.slots.get(owner)
        if slot is None or not self.coloured:
            return text
        return paint_with(text, slot)

    def format_legend(self, owner: str) -> str:
        """The legend entry of an owner."""
        name = owner.rpartition("/")[2]
        return self.paint(owner, name) if self.coloured else f"{self._letter(owner)}={name}"

    def _letter(self, owner: str) -> str:
        return _LETTERS[self.slots[owner] % len(_LETTERS)]


def draw_gpu_cells(node: NodeRow, pods: Sequence[PodRow], owners: OwnerColours) -> str:
    """A cell per GPU of a node, at most `MAX_CELLS`. GPUs of pods without a device annotation fill
    the first free cells."""
    drawn = node.gpus if node.gpus <= MAX_CELLS else MAX_CELLS - len(ELLIPSIS)
    shares_by_index: dict[int, list[tuple[str, float]]] = {}
    unassigned: list[str] = []
    for pod in pods:
        for index, share in pod.devices:
            shares_by_index.setdefault(index, []).append((pod.workload, share))
        if not pod.devices:
            unassigned += [pod.workload] * min(pod.gpus, drawn - len(unassigned))
    cells: list[str] = []
    for index in range(drawn):
        shares = shares_by_index.get(index)
        if shares is None and index in node.lost:
            cells.append(LOST)
        elif shares is not None:
            owner, _ = max(shares, key=lambda each: each[1])
            cells.append(owners.draw_cell(owner, sum(share for _, share in shares)))
        elif unassigned:
            cells.append(owners.draw_cell(unassigned.pop(0), 1.0))
        else:
            cells.append(FREE)
    return "".join(cells) + (ELLIPSIS if drawn < node.gpus else "")
