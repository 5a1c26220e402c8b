"""Readings of nodes as metrics of prometheus_client."""

from collections.abc import Iterable, Iterator

from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from kilonova.gpu.exporter.attribution import Attribution
from kilonova.gpu.exporter.dcgm import list_dcgm_samples
from kilonova.gpu.exporter.health import list_health_samples
from kilonova.gpu.exporter.kgwe import list_idle_samples, list_kgwe_samples
from kilonova.gpu.exporter.metrics import Sample
from kilonova.gpu.exporter.mig_capacity import list_capacity_samples
from kilonova.gpu.exporter.model import ExporterReading, NodeReading
from kilonova.gpu.exporter.pods import list_pod_samples


def render(reading: ExporterReading, accept: str = "") -> tuple[bytes, str]:
    """The exposition and its content type, in the newest accepted format."""
    encode, content_type = choose_encoder(accept)
    return encode(ReadingCollector(reading)), content_type


class ReadingCollector(Collector):
    """Collects the metrics of a reading. It is a value: this may run in any thread."""

    def __init__(self, reading: ExporterReading) -> None:
        self._reading = reading

    def collect(self) -> Iterable[Metric]:
        """The metrics of all nodes, by name."""
        metrics: dict[str, Metric] = {}
        for node in self._reading.nodes:
            for sample in list_samples(node):
                _add(metrics, sample)
        for idle in self._reading.idle:
            for sample in list_idle_samples(idle):
                _add(metrics, sample)
        return [metrics[name] for name in sorted(metrics)]


def list_samples(reading: NodeReading) -> Iterator[Sample]:
    """All samples of a node."""
    attribution = Attribution(reading)
    yield from list_dcgm_samples(reading, attribution)
    yield from list_kgwe_samples(reading)
    yield from list_pod_samples(reading, attribution)
    yield from list_health_samples(reading)
    yield from list_capacity_samples(reading, attribution)


def _add(metrics: dict[str, Metric], sample: Sample) -> None:
    info = sample.metric
    metric = metrics.get(info.name)
    if metric is None:
        metric = metrics[info.name] = Metric(info.name, info.help, info.kind)
    name = f"{info.name}_total" if info.kind == "counter" else info.name
    metric.add_sample(name, dict(sample.labels), sample.value)
