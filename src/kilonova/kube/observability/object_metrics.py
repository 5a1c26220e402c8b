"""Metrics that count objects of the API: kept up to date by changes, or counted when scraped."""

import collections
from collections.abc import Callable, Iterable, Iterator, Set
from typing import TypeAlias, TypeVar

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.core import GaugeMetricFamily

from kilonova.kube.informers.store import Store

T = TypeVar("T")

LabelSets: TypeAlias = Set[tuple[str, ...]]
"""The label values under which an object is counted: none, one or several."""


class ObjectGauge:
    """A gauge that counts objects by labels; labels without objects are removed.

    A change costs the same however many objects there are.
    """

    def __init__(
        self, name: str, text: str, labels: Iterable[str], registry: CollectorRegistry
    ) -> None:
        self._gauge = Gauge(name, text, tuple(labels), registry=registry)
        self._counts: collections.Counter[tuple[str, ...]] = collections.Counter()

    def move_object(self, old_labels: LabelSets, new_labels: LabelSets) -> None:
        """Count an object under its new labels instead of its old ones."""
        for labels in old_labels ^ new_labels:
            self._counts[labels] += 1 if labels in new_labels else -1
            if self._counts[labels]:
                self._gauge.labels(*labels).set(self._counts[labels])
            else:
                del self._counts[labels]
                self._gauge.remove(*labels)


class CountCollector:
    """Counts values when the metrics are scraped: a gauge with the value as its label.

    Register it with `CollectorRegistry.register`.
    """

    def __init__(
        self, name: str, text: str, label: str, list_values: Callable[[], Iterable[str]]
    ) -> None:
        self._name = name
        self._text = text
        self._label = label
        self._list_values = list_values

    def collect(self) -> Iterator[GaugeMetricFamily]:
        family = GaugeMetricFamily(self._name, self._text, labels=[self._label])
        for value, count in sorted(collections.Counter(self._list_values()).items()):
            family.add_metric([value], count)
        yield family


def observe_objects(
    store: Store[T], on_change: Callable[[T | None, T | None], None]
) -> Callable[[], None]:
    """Call `on_change` for every object of a store, then for every change of one; returns the
    function that ends it."""
    for each in list(store.objects()):
        on_change(None, each)
    return store.add_event_handler(on_change)
