"""Where claims that several pods of a gang share are allocated.

The first pod placed decides where the others fit; so rows are tried one by one.
"""

from collections.abc import Iterator, Mapping
from itertools import product

import numpy as np

from kilonova.scheduler.core.filters.feasibility import FeasibilityCache
from kilonova.scheduler.core.model.gangs import Member
from kilonova.scheduler.core.model.label_columns import Rows
from kilonova.scheduler.core.model.requests import Shape
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.core.placement.backtracking_search import (
    claim_search_cost,
)
from kilonova.scheduler.core.search_budget import SearchBudget
from kilonova.scheduler.core.topology.gang_tree import GangPart


class ClaimPins:
    """Pins the unallocated shared claims of one gang to rows. `budget` limits the options."""

    def __init__(
        self, snapshot: Snapshot, feasibility: FeasibilityCache, budget: SearchBudget
    ) -> None:
        self._snapshot = snapshot
        self._feasibility = feasibility
        self._budget = budget
        self.pins: Mapping[str, int] = {}
        """Row on which each unallocated shared claim is to be allocated."""

    def find_options(self, root: GangPart, rows: Rows) -> Iterator[Mapping[str, int]]:
        """Rows on which shared claims may be allocated: all users of a claim must fit from there.
        Claims of one pod are allocated on the same node."""
        sharers: dict[str, dict[Shape, int]] = {}
        joined: dict[str, set[str]] = {}
        for leaf in root.leaves():
            for shape, number in leaf.required_shapes:
                claims = self._snapshot.claims.unallocated_shared_claims(shape.claims)
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
            # Each option recomputes all nodes. Options left out are covered by the complete search.
            if number and not self._budget.spend(2 * claim_search_cost(len(rows))):
                return
            pins = zip(parts, chosen, strict=True)
            yield {claim: row for together, row in pins for claim in together}

    def reachable_rows(self, member: Member, rows: Rows) -> Rows:
        """Rows from which a pod reaches the devices of its shared claims."""
        for claim in self._snapshot.claims.unallocated_shared_claims(member.shape.claims):
            if claim in self.pins:
                rows = rows[rows == self.pins[claim]]
        return rows

    def _pin_rows(self, shapes: Mapping[Shape, int], rows: Rows) -> list[int]:
        """Rows where a pod of each shape fits; rows where all of their pods fit come first."""
        capacities = [self._feasibility.free_capacity(shape)[rows] for shape in shapes]
        least = np.minimum.reduce(capacities)
        enough = least >= sum(shapes.values())
        keys = self._feasibility.ranking_keys(next(iter(shapes)))[rows]
        order = np.lexsort((-keys, ~enough))
        return rows[order][least[order] > 0].tolist()
