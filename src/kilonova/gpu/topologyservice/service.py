"""The answers, for HTTP and gRPC alike."""

from collections.abc import Callable

from kilonova.gpu.topologyservice.best_set import BestSet, SetQuery, find_best_set
from kilonova.gpu.topologyservice.index import TopologyIndex
from kilonova.gpu.topologyservice.views import DOMAIN_LABELS
from kilonova.scheduler.core.filters.feasibility import FeasibilityCache, ScoreFunction
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.core.placement.placer import Placer


class TopologyService:
    """Answers from memory; `has_synced` indicates whether the caches are complete."""

    def __init__(
        self,
        snapshot: Snapshot,
        index: TopologyIndex,
        score: ScoreFunction,
        has_synced: Callable[[], bool],
    ) -> None:
        self.index = index
        self.has_synced = has_synced
        self._snapshot = snapshot
        self._placer = Placer(snapshot, FeasibilityCache(snapshot, score), DOMAIN_LABELS)

    def best_set(self, query: SetQuery) -> BestSet:
        """The GPUs that the scheduler would choose now."""
        return find_best_set(self._snapshot, self._placer, query, self.index.view)
