"""Metrics by the values of their labels, and without labels."""

from prometheus_client import CollectorRegistry

from kilonova.kube.observability.metric_factory import MetricFactory


def test_metric_is_found_by_the_values_of_its_labels() -> None:
    registry = CollectorRegistry()
    requests = MetricFactory(registry).counter("requests_total", "Requests", "code")
    requests("200").inc(2)
    requests("404").inc()
    assert requests("200") is requests("200")
    assert registry.get_sample_value("requests_total", {"code": "200"}) == 2
    assert registry.get_sample_value("requests_total", {"code": "404"}) == 1


def test_metric_without_labels_is_one() -> None:
    registry = CollectorRegistry()
    create = MetricFactory(registry)
    create.counter("starts_total", "Starts")().inc()
    create.gauge("leader", "Leads")().set(1)
    create.histogram("seconds", "Duration")().observe(0.1)
    assert registry.get_sample_value("starts_total") == 1
    assert registry.get_sample_value("leader") == 1
    assert registry.get_sample_value("seconds_count") == 1
