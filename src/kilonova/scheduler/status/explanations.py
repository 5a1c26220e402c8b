"""Cached explanations of why gangs are unschedulable.

An explanation costs some milliseconds. Gangs with equal requests are unschedulable for the same
reason, so it is computed once, on one copy of the cluster that is used for a few seconds. It
contains placeholders, which are replaced by the group names of each gang.
"""

from collections.abc import Hashable
from dataclasses import replace

from kilonova.scheduler.cache.scheduler_cache import SchedulerCache
from kilonova.scheduler.context import SchedulerContext
from kilonova.scheduler.core.backfill.shadow import BackfillReservation
from kilonova.scheduler.core.decisions import UnschedulableGang
from kilonova.scheduler.core.equivalence import equivalence_key
from kilonova.scheduler.core.explain import Explainer
from kilonova.scheduler.core.filters.feasibility import ScoreFunction
from kilonova.scheduler.core.model.gangs import Gang

_EXPLAINER_TTL_SECONDS = 5.0


class ExplanationCache:
    """Explains unschedulable gangs of one scheduler."""

    def __init__(
        self, context: SchedulerContext, cache: SchedulerCache, score: ScoreFunction
    ) -> None:
        self._cache = cache
        self._score = score
        self._policy = context.settings.policy
        self._now = context.now
        self._explainer: Explainer | None = None
        self._created_at = float("-inf")
        self._messages: dict[Hashable, str] = {}

    def __call__(
        self, rejection: UnschedulableGang, reservation: BackfillReservation | None
    ) -> str:
        """The message for an unschedulable gang."""
        now = self._now().timestamp()
        if self._explainer is None or not 0 <= now - self._created_at < _EXPLAINER_TTL_SECONDS:
            self._explainer = Explainer(self._cache.cluster, self._score, self._policy)
            self._created_at = now
            self._messages.clear()
        key = self._cache_key(rejection, reservation)
        message = self._messages.get(key) if key is not None else None
        if message is None:
            anonymous = _with_placeholder_names(rejection.gang)
            message = self._explainer.explain(anonymous, rejection.reason, now, reservation).message
            if key is not None:
                self._messages[key] = message
        for number, group in enumerate(rejection.gang.groups):
            message = message.replace(_placeholder(number), group.name)
        return message

    def _cache_key(
        self, rejection: UnschedulableGang, reservation: BackfillReservation | None
    ) -> Hashable | None:
        """A key that is equal for gangs with the same explanation; None if none can be shared."""
        gang = rejection.gang
        request_key = equivalence_key(gang, self._cache.cluster.snapshot.pod_counts)
        if request_key is None:
            return None
        sizes = tuple((group.minimum, len(group.members)) for group in gang.groups)
        is_reserved_for = reservation is not None and reservation.gang.name == gang.name
        return request_key, sizes, gang.duration, rejection.reason, is_reserved_for


def _with_placeholder_names(gang: Gang) -> Gang:
    names = {group.name: _placeholder(number) for number, group in enumerate(gang.groups)}
    groups = tuple(replace(group, name=names[group.name]) for group in gang.groups)
    bundles = tuple(
        replace(each, groups=tuple(names.get(name, name) for name in each.groups))
        for each in gang.bundles
    )
    return replace(gang, groups=groups, bundles=bundles)


def _placeholder(number: int) -> str:
    """A name that no group has: names contain no control characters."""
    return f"\x02{number}\x03"
