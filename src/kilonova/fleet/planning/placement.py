"""How many instances each cluster should have.

Instances stay where they are. Further ones go, one by one, to the cluster with the highest score

    fit × weight / cost × stability / (instances beyond its minimum + 1)

among those in which one more fits, in a failure domain that has not too many. So shares become
proportional to weights. Surplus ones are taken from the clusters with the lowest score.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

State = Literal["open", "held", "returning", "leaving", "gone"]
"""`held`: nothing is changed; `returning`: nor that, and its instances are not relied on, so that
others stay beside them; `leaving`: its instances are moved elsewhere; `gone`: they are replaced
elsewhere, and do not count."""


@dataclass(slots=True)
class Candidate:
    """A cluster that may have, or has, instances of a deployment."""

    cluster: str
    domain: str
    state: State
    current: int
    low: int = 0
    high: int | None = None
    capacity: int = 0
    """How many more fit."""
    weight: float = 1.0
    """Of the placement and the cluster, over the cost."""
    stability: float = 1.0
    stuck: int = 0
    """Instances that the cluster cannot place."""
    target: int = 0

    @property
    def can_grow(self) -> bool:
        """Whether it may have one more instance."""
        return (
            self.state == "open"
            and self.stuck == 0
            and self.weight > 0
            and self.target < self.current + self.capacity
            and (self.high is None or self.target < self.high)
        )

    @property
    def can_shrink(self) -> bool:
        """Whether it may have one less."""
        return self.state == "open" and self.target > self.low


@dataclass(frozen=True, slots=True)
class Spread:
    """How uneven the failure domains may be."""

    max_skew: int


@dataclass(frozen=True, slots=True)
class Targets:
    """What was found."""

    unplaced: int
    """Instances for which there is no capacity."""
    delayed: int
    """Instances whose move has to wait for those that are being moved."""


def choose_targets(
    candidates: Sequence[Candidate],
    total: int,
    spread: Spread | None,
    *,
    may_move: int,
    may_rebalance: bool,
) -> Targets:
    """Set the targets of the candidates, so that their sum is `total` where capacity allows it.

    At most `may_move` instances are placed in other clusters than before. Without capacity
    elsewhere, instances stay where they are to leave.
    """
    for each in candidates:
        each.target = _find_base(each)
    missing = max(0, total - sum(each.target for each in candidates))
    reliable = sum(each.target for each in candidates if each.state != "returning")
    if reliable > total:
        _remove_surplus(candidates, reliable - total, spread)
    new = max(0, total - sum(each.current for each in candidates))
    allowed = min(missing, new + may_move)
    placed = _add(candidates, allowed, spread)
    left = missing - placed
    kept = _keep_where_they_are(candidates, left)
    if may_rebalance and not left and spread is not None:
        _rebalance(candidates, spread, may_move - max(0, placed - new))
    delayed = missing - allowed
    return Targets(max(0, left - kept - delayed), delayed)


def _find_base(candidate: Candidate) -> int:
    """How many instances stay, before any are placed."""
    match candidate.state:
        case "held" | "returning":
            return candidate.current
        case "gone" | "leaving":
            return 0
        case "open":
            base = candidate.current - candidate.stuck
            if candidate.high is not None:
                base = min(base, candidate.high)
            return max(base, candidate.low)


def _add(candidates: Sequence[Candidate], count: int, spread: Spread | None) -> int:
    """Place up to `count` instances; returns how many."""
    if count <= 0:
        return 0
    fits = {each.cluster: min(1.0, each.capacity / count) for each in candidates}

    def score(each: Candidate) -> _Score:
        share = max(0, each.target - each.low) + 1
        return -fits[each.cluster] * each.weight * each.stability / share, each.cluster

    domains = _count_domains(candidates)
    by_domain: dict[str, list[Candidate]] = {}
    for each in candidates:
        # Without a constraint on them, domains need not be distinguished.
        by_domain.setdefault("" if spread is None else each.domain, []).append(each)
    queues = {domain: _CandidateQueue(found, score) for domain, found in by_domain.items()}
    for placed in range(count):
        heads = {domain: head for domain, queue in queues.items() if (head := queue.peek())}
        if not heads:
            return placed
        lowest = min(domains[domain] for domain in heads)
        allowed = [
            domain
            for domain in heads
            if spread is None or domains[domain] < lowest + spread.max_skew
        ]
        best = min(allowed, key=lambda domain: heads[domain])
        queues[best].take()
        domains[best] += 1
    return count


_Score = tuple[float, str]


class _CandidateQueue:
    """Candidates by score, the best first."""

    def __init__(
        self, candidates: Sequence[Candidate], score: Callable[[Candidate], _Score]
    ) -> None:
        self._score = score
        self._by_name = {each.cluster: each for each in candidates if each.can_grow}
        self._heap = [score(each) for each in self._by_name.values()]
        heapq.heapify(self._heap)

    def peek(self) -> _Score | None:
        """The score of the best one, None if none may have one more."""
        return self._heap[0] if self._heap else None

    def take(self) -> None:
        """Give the best one an instance."""
        best = self._by_name[self._heap[0][1]]
        best.target += 1
        if best.can_grow:
            heapq.heapreplace(self._heap, self._score(best))
        else:
            heapq.heappop(self._heap)


def _remove_surplus(candidates: Sequence[Candidate], count: int, spread: Spread | None) -> None:
    domains = _count_domains(candidates)
    for _ in range(count):
        shrinking = [each for each in candidates if each.can_shrink]
        if not shrinking:
            return

        def worth(each: Candidate) -> tuple[float, float, str]:
            crowd = -float(domains[each.domain]) if spread is not None else 0.0
            share = max(1, each.target - each.low)
            return crowd, each.weight / share, each.cluster

        last = min(shrinking, key=worth)
        last.target -= 1
        domains[last.domain] -= 1


def _keep_where_they_are(candidates: Sequence[Candidate], count: int) -> int:
    """Instances that fit nowhere else stay in the clusters that they were to leave."""
    kept = 0
    for each in candidates:
        if each.state not in ("open", "leaving") or each.target >= each.current:
            continue
        limit = each.current
        if each.state == "open" and each.high is not None:
            limit = min(limit, each.high)
        back = max(0, min(limit - each.target, count - kept))
        each.target += back
        kept += back
    return kept


def _rebalance(candidates: Sequence[Candidate], spread: Spread, may_move: int) -> None:
    """Move instances from crowded domains to others, as long as the skew is too great."""
    domains = _count_domains(candidates)
    for _ in range(max(0, may_move)):
        growing = [each for each in candidates if each.can_grow]
        shrinking = [each for each in candidates if each.can_shrink]
        if not growing or not shrinking:
            return
        to = min(growing, key=lambda each: (domains[each.domain], -each.weight, each.cluster))
        source = min(shrinking, key=lambda each: (-domains[each.domain], each.weight, each.cluster))
        if domains[source.domain] - domains[to.domain] <= spread.max_skew:
            return
        source.target -= 1
        to.target += 1
        domains[source.domain] -= 1
        domains[to.domain] += 1


def _count_domains(candidates: Sequence[Candidate]) -> Counter[str]:
    domains: Counter[str] = Counter()
    for each in candidates:
        domains[each.domain] += each.target
    return domains
