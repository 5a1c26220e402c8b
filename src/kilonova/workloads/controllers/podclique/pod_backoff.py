"""Backoff before a failed pod is created again, as the Job controller's.

Without it, a pod that fails at once would be created again in a tight loop. The first failure
causes no delay; each further one within a time doubles the delay of its index. Other pods of the
clique are not delayed. Kept in memory: a restarted operator counts the failed pods that still
exist.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from kilonova.api.grove import PodClique, names
from kilonova.kube import Key
from kilonova.workloads.keys import get_incarnation
from kilonova.workloads.pods.classification import (
    has_succeeded,
    is_controlled_by,
    is_current,
    runs_to_completion,
)
from kilonova.workloads.pods.state import get_pod_index, is_finished, is_terminating
from kilonova.workloads.resources import Pod

_INITIAL_BACKOFF_SECONDS, _MAX_BACKOFF_SECONDS = 1.0, 60.0
_RESET_AFTER_SECONDS = 2 * _MAX_BACKOFF_SECONDS
"""A failure longer than this after the last one counts as the first."""


@dataclass(frozen=True, slots=True)
class _IndexFailures:
    """Failures at one index."""

    count: int
    last: float

    @property
    def retry_at(self) -> float:
        if self.count < 2:
            return self.last
        return self.last + min(
            _INITIAL_BACKOFF_SECONDS * 2.0 ** min(self.count - 2, 64), _MAX_BACKOFF_SECONDS
        )


@dataclass(slots=True)
class _CliqueFailures:
    identity: tuple[str, str, int]
    counted_uids: frozenset[str] = frozenset()
    """Failed pods that still exist and have been counted."""
    failures: dict[int, _IndexFailures] = field(default_factory=dict[int, _IndexFailures])


class PodBackoff:
    """Counts the failures of every clique by index; a new template resets them."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._now = monotonic
        self._records: dict[Key, _CliqueFailures] = {}

    def compute_delays(self, clique: PodClique, pods: Iterable[Pod]) -> Mapping[int, float]:
        """Seconds until a pod may be created again, for indexes in backoff."""
        known, now = clique.metadata, self._now()
        key = known.namespace, known.name
        failed = [pod for pod in pods if _has_failed(clique, pod)]
        record = self._records.get(key)
        if record is None and not failed:
            return {}
        identity = _get_identity(clique)
        if record is None or record.identity != identity:
            record = _CliqueFailures(identity)
        for pod in failed:
            index = get_pod_index(pod)
            if index is not None and pod.metadata.uid not in record.counted_uids:
                last = record.failures.get(index)
                count = (
                    1 if last is None or now - last.last > _RESET_AFTER_SECONDS else last.count + 1
                )
                record.failures[index] = _IndexFailures(count, now)
        record.counted_uids = frozenset(pod.metadata.uid for pod in failed)
        record.failures = {
            index: each
            for index, each in record.failures.items()
            if now - each.last <= _RESET_AFTER_SECONDS
        }
        if record.counted_uids or record.failures:
            self._records[key] = record
        else:
            self._records.pop(key, None)
        return {
            index: each.retry_at - now
            for index, each in record.failures.items()
            if each.retry_at > now
        }

    def forget(self, key: Key) -> None:
        """Forget a deleted clique."""
        self._records.pop(key, None)


def _get_identity(clique: PodClique) -> tuple[str, str, int]:
    known = clique.metadata
    return known.uid, known.labels.get(names.POD_TEMPLATE_HASH, ""), get_incarnation(known)


def _has_failed(clique: PodClique, pod: Pod) -> bool:
    """Whether a pod has ended unexpectedly; a deleted pod has not."""
    return (
        is_finished(pod)
        and not is_terminating(pod)
        and not (has_succeeded(pod) and runs_to_completion(clique))
        and is_controlled_by(clique, pod)
        and is_current(clique, pod)
        and get_incarnation(pod.metadata) == get_incarnation(clique.metadata)
    )
