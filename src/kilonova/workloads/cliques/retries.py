"""How long a clique waits before it makes a pod again that has failed.

A pod that fails as soon as it starts would otherwise be made anew as fast as the cluster can. The
first failure costs no time; each that follows soon after doubles the wait of its index. Other pods
of the clique do not wait. All of it is kept in memory: a new operator counts what it still finds.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from kilonova.api.grove import PodClique, names
from kilonova.kube import Key
from kilonova.workloads.cliques.roster import has_succeeded, is_current, is_own, runs_to_an_end
from kilonova.workloads.keys import incarnation_of
from kilonova.workloads.pods import is_ending, is_finished, pod_index
from kilonova.workloads.resources import Pod

_FIRST, _LONGEST = 1.0, 60.0
_FORGIVEN = 2 * _LONGEST
"""Seconds after a failure from which on the next one counts as the first."""


@dataclass(frozen=True, slots=True)
class _Failures:
    """What has happened at one index."""

    count: int
    last: float

    @property
    def until(self) -> float:
        if self.count < 2:
            return self.last
        return self.last + min(_FIRST * 2.0 ** min(self.count - 2, 64), _LONGEST)


@dataclass(slots=True)
class _Record:
    edition: tuple[str, str, int]
    counted: frozenset[str] = frozenset()
    """Failed pods that are still there, and have been counted."""
    failures: dict[int, _Failures] = field(default_factory=dict[int, _Failures])


class Retries:
    """Counts the failures of every clique, by index. Another template starts afresh."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._now = monotonic
        self._records: dict[Key, _Record] = {}

    def waits(self, clique: PodClique, pods: Iterable[Pod]) -> Mapping[int, float]:
        """Seconds until a pod may be made at an index again, where that is not now."""
        known, now = clique.metadata, self._now()
        key = known.namespace, known.name
        failed = [pod for pod in pods if _has_failed(clique, pod)]
        record = self._records.get(key)
        if record is None and not failed:
            return {}
        edition = _edition(clique)
        if record is None or record.edition != edition:
            record = _Record(edition)
        for pod in failed:
            index = pod_index(pod)
            if index is not None and pod.metadata.uid not in record.counted:
                before = record.failures.get(index)
                count = 1 if before is None or now - before.last > _FORGIVEN else before.count + 1
                record.failures[index] = _Failures(count, now)
        record.counted = frozenset(pod.metadata.uid for pod in failed)
        record.failures = {
            index: each for index, each in record.failures.items() if now - each.last <= _FORGIVEN
        }
        if record.counted or record.failures:
            self._records[key] = record
        else:
            self._records.pop(key, None)
        return {
            index: each.until - now for index, each in record.failures.items() if each.until > now
        }

    def forget(self, key: Key) -> None:
        """The clique is gone."""
        self._records.pop(key, None)


def _edition(clique: PodClique) -> tuple[str, str, int]:
    known = clique.metadata
    return known.uid, known.labels.get(names.POD_TEMPLATE_HASH, ""), incarnation_of(known)


def _has_failed(clique: PodClique, pod: Pod) -> bool:
    """Whether a pod has ended that should not; not one that was told to."""
    return (
        is_finished(pod)
        and not is_ending(pod)
        and not (has_succeeded(pod) and runs_to_an_end(clique))
        and is_own(clique, pod)
        and is_current(clique, pod)
        and incarnation_of(pod.metadata) == incarnation_of(clique.metadata)
    )
