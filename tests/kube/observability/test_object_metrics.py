"""Metrics that count objects."""

from prometheus_client import CollectorRegistry, generate_latest

from kilonova.kube.observability.object_metrics import CountCollector, ObjectGauge


def test_objects_are_counted_under_their_current_labels() -> None:
    registry = CollectorRegistry()
    gauge = ObjectGauge("gangs", "Gangs.", ["namespace", "phase"], registry)
    gauge.move_object(set(), {("a", "Pending")})
    gauge.move_object(set(), {("a", "Pending")})
    gauge.move_object({("a", "Pending")}, {("a", "Running")})
    assert read_samples(registry) == {
        'gangs{namespace="a",phase="Pending"}': 1.0,
        'gangs{namespace="a",phase="Running"}': 1.0,
    }


def test_labels_without_objects_are_removed() -> None:
    registry = CollectorRegistry()
    gauge = ObjectGauge("gangs", "Gangs.", ["namespace"], registry)
    gauge.move_object(set(), {("a",), ("b",)})
    gauge.move_object({("a",), ("b",)}, {("b",)})
    assert read_samples(registry) == {'gangs{namespace="b"}': 1.0}


def test_values_are_counted_at_every_scrape() -> None:
    registry, values = CollectorRegistry(), ["full", "full", "quota"]
    registry.register(CountCollector("pending", "Pending.", "reason", lambda: values))
    assert read_samples(registry) == {
        'pending{reason="full"}': 2.0,
        'pending{reason="quota"}': 1.0,
    }
    values.clear()
    assert read_samples(registry) == {}


def read_samples(registry: CollectorRegistry) -> dict[str, float]:
    lines = generate_latest(registry).decode().splitlines()
    samples = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in samples}
