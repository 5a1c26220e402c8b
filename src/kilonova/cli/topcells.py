"""GPUs as cells: one for each device, in the colour of whoever holds it. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from zlib import crc32

from kilonova.console.rows import NodeRow, PodRow

_PALETTE = (39, 208, 42, 213, 220, 75, 203, 114, 141, 179, 51, 197, 148, 105, 173, 45)
"""Of the 256 colours of terminals: far from each other, readable on dark and on light."""
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_WHOLE = 0.999

FREE, LOST, HELD, PARTLY, MORE = "·", "×", "█", "▄", "…"
MOST_CELLS = 64
"""So many are drawn of a node: whoever writes one may say that it has any number of GPUs."""


@dataclass(frozen=True, slots=True)
class Owners:
    """The colour, and where there are no colours the letter, of each owner."""

    coloured: bool
    places: Mapping[str, int]

    @classmethod
    def of(cls, names: Iterable[str], coloured: bool) -> "Owners":
        """Those of some owners.

        A colour goes by the name, so that it stays while others come and go, and differs from
        those of the others as long as there are enough.
        """
        known = sorted(set(names))
        if not coloured:
            return cls(coloured, {name: place for place, name in enumerate(known)})
        places: dict[str, int] = {}
        free = set(range(len(_PALETTE)))
        for name in known:
            wished = crc32(name.encode())
            tries = ((wished + step) % len(_PALETTE) for step in range(len(_PALETTE)))
            places[name] = next((one for one in tries if one in free), wished)
            free.discard(places[name])
        return cls(coloured, places)

    def cell(self, owner: str, share: float) -> str:
        """A device of which somebody holds a share."""
        if self.coloured:
            return self.painted(owner, HELD if share >= _WHOLE else PARTLY)
        letter = self._letter(owner)
        return letter if share >= _WHOLE else letter.lower()

    def painted(self, owner: str, text: str) -> str:
        """Text in the colour of an owner; as it is if that holds nothing."""
        place = self.places.get(owner)
        if place is None or not self.coloured:
            return text
        return f"\x1b[38;5;{_PALETTE[place % len(_PALETTE)]}m{text}\x1b[0m"

    def named(self, owner: str) -> str:
        """The name of an owner, as a legend has it."""
        name = owner.rpartition("/")[2]
        return self.painted(owner, name) if self.coloured else f"{self._letter(owner)}={name}"

    def _letter(self, owner: str) -> str:
        return _LETTERS[self.places[owner] % len(_LETTERS)]


def cells_of(node: NodeRow, pods: Sequence[PodRow], owners: Owners) -> str:
    """A cell for each GPU of a node, or for as many as are drawn. Those held by pods that do not
    say which are filled up."""
    drawn = node.gpus if node.gpus <= MOST_CELLS else MOST_CELLS - len(MORE)
    holders: dict[int, list[tuple[str, float]]] = {}
    unplaced: list[str] = []
    for pod in pods:
        for index, share in pod.devices:
            holders.setdefault(index, []).append((pod.workload, share))
        if not pod.devices:
            unplaced += [pod.workload] * min(pod.gpus, drawn - len(unplaced))
    cells: list[str] = []
    for index in range(drawn):
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
    return "".join(cells) + (MORE if drawn < node.gpus else "")
