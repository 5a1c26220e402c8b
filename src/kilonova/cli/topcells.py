"""GPUs as cells: one for each device, in the colour of whoever holds it. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from zlib import crc32

from kilonova.console.rows import NodeRow, PodRow

_PALETTE = (39, 208, 42, 213, 220, 75, 203, 114, 141, 179, 51, 197, 148, 105, 173, 45)
"""Of the 256 colours of terminals: far from each other, readable on dark and on light."""
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_WHOLE = 0.999

FREE, LOST, HELD, PARTLY = "·", "×", "█", "▄"


@dataclass(frozen=True, slots=True)
class Owners:
    """The colour, and where there are no colours the letter, of each owner.

    Colours go by name, so that they stay from one picture to the next.
    """

    coloured: bool
    letters: Mapping[str, str]

    @classmethod
    def of(cls, names: Iterable[str], coloured: bool) -> "Owners":
        """Those of some owners."""
        known = sorted(set(names))
        return cls(coloured, {name: _LETTERS[at % 26] for at, name in enumerate(known)})

    def cell(self, owner: str, share: float) -> str:
        """A device of which somebody holds a share."""
        if not self.coloured:
            letter = self.letters.get(owner, "?")
            return letter if share >= _WHOLE else letter.lower()
        return self.painted(owner, HELD if share >= _WHOLE else PARTLY)

    def painted(self, owner: str, text: str) -> str:
        """Text in the colour of an owner."""
        if not self.coloured:
            return text
        return f"\x1b[38;5;{_PALETTE[crc32(owner.encode()) % len(_PALETTE)]}m{text}\x1b[0m"

    def named(self, owner: str) -> str:
        """The name of an owner, as a legend has it."""
        name = owner.rpartition("/")[2]
        if self.coloured:
            return self.painted(owner, name)
        return f"{self.letters.get(owner, '?')}={name}"


def cells_of(node: NodeRow, pods: Sequence[PodRow], owners: Owners) -> str:
    """A cell for each GPU of a node. Those held by pods that do not say which are filled up."""
    holders: dict[int, list[tuple[str, float]]] = {}
    unplaced: list[str] = []
    for pod in pods:
        for index, share in pod.devices:
            holders.setdefault(index, []).append((pod.workload, share))
        if not pod.devices:
            unplaced += [pod.workload] * pod.gpus
    cells: list[str] = []
    for index in range(node.gpus):
        held = holders.get(index)
        if held is None and index in node.lost:
            cells.append(LOST)
        elif held is not None:
            most = max(held, key=lambda one: one[1])
            cells.append(owners.cell(most[0], sum(share for _, share in held)))
        elif unplaced:
            cells.append(owners.cell(unplaced.pop(0), 1.0))
        else:
            cells.append(FREE)
    return "".join(cells)
