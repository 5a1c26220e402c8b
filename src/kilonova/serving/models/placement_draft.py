"""A placement in the making: copies that are placed, and present ones that may give way. Pure."""

from collections import Counter
from collections.abc import Mapping
from typing import TypeAlias

from kilonova.serving.models.model import PlacedModel, Servers

_Rank: TypeAlias = tuple[object, ...]


class PlacementDraft:
    """Places copies on servers of equal memory, none of which is ever exceeded.

    `present` are the models that servers have; unknown ones do not count.
    """

    def __init__(
        self, models: Mapping[str, PlacedModel], present: Servers, server_memory: float
    ) -> None:
        self._models = models
        self._memory = server_memory
        self._present = {server: names & models.keys() for server, names in present.items()}
        self._present_copies = Counter(name for names in self._present.values() for name in names)
        self._present_used = {
            server: sum(models[each].memory for each in names)
            for server, names in self._present.items()
        }
        self._placed: dict[str, set[str]] = {server: set() for server in present}
        self._used = dict.fromkeys(present, 0)
        self._copies: Counter[str] = Counter()

    def place(self, model: PlacedModel, copies: int, *, only_present: bool = False) -> None:
        """Place copies until there are so many of a model; those that fit nowhere are left out."""
        missing = copies - self._copies[model.name]
        if missing <= 0:
            return
        fitting = [each for each in self._placed if self.fits(each, model)]
        for server in [each for each in fitting if model.name in self._present[each]][:missing]:
            self.add(server, model)
            missing -= 1
        if missing > 0 and not only_present:
            others = [each for each in fitting if model.name not in self._present[each]]
            others.sort(key=lambda each: self._rank_server(each, model))
            for server in others[:missing]:
                self.add(server, model)

    def keep_present(self) -> None:
        """Place the present copies that still fit: those of last copies, and used last, first."""
        for server, names in self._present.items():
            for name in sorted(names, key=self._rank_present, reverse=True):
                model = self._models[name]
                limit = model.limit_copies(len(self._placed))
                if self._copies[name] < limit and self.fits(server, model):
                    self.add(server, model)

    def add(self, server: str, model: PlacedModel) -> None:
        """Place one copy."""
        self._placed[server].add(model.name)
        self._used[server] += model.memory
        self._copies[model.name] += 1

    def fits(self, server: str, model: PlacedModel) -> bool:
        """Whether a server has space for a copy, beside those that are placed, and none yet."""
        return (
            model.name not in self._placed[server]
            and self._used[server] + model.memory <= self._memory
        )

    def finish(self) -> dict[str, frozenset[str]]:
        """The placement."""
        return {server: frozenset(names) for server, names in self._placed.items()}

    def _rank_server(self, server: str, model: PlacedModel) -> _Rank:
        """Servers where nothing has to give way first, of those the emptiest; then by what would
        have to."""
        present, placed = self._present[server], self._placed[server]
        moved_in = sum(self._models[each].memory for each in placed - present)
        used = self._present_used[server] + moved_in
        missing = used + model.memory - self._memory
        if missing <= 0:
            return ((), used, len(present | placed), server)
        ranks: list[_Rank] = []
        for name in sorted(present - placed, key=self._rank_present):
            if missing <= 0:
                break
            missing -= self._models[name].memory
            ranks.append(self._rank_present(name))
        return (ranks[-1] if ranks else (), 0, 0, server)

    def _rank_present(self, name: str) -> _Rank:
        """The last copy of a model is kept rather than one of several, then what was used last."""
        return (self._present_copies[name] == 1, -self._models[name].idle_seconds, name)
