"""Metrics of servers: as Triton wrote them, as vLLM writes them, and of plain HTTP servers."""

from pathlib import Path

import pytest

from kilonova.serving.signals.readings.reading import Reading
from kilonova.serving.signals.readings.server_metrics import parse_server_metrics

RECORDINGS = Path(__file__).parents[1] / "recordings"


def test_triton_has_means_of_queue_and_compute() -> None:
    """Recorded from Triton 2.51: eight requests at once to a model that takes 20 ms."""
    reading = parse_server_metrics((RECORDINGS / "triton.txt").read_text())
    assert reading.gauges == {"queued": 0}
    queue, compute = reading.distributions["queue"], reading.distributions["compute"]
    assert queue.mean == pytest.approx(587094e-6 / 8)
    assert compute.mean == pytest.approx((234 + 178077 + 865) * 1e-6 / 8)
    assert queue.quantile(0.95) is None


def test_vllm_has_distributions_and_tokens() -> None:
    reading = parse_server_metrics((RECORDINGS / "vllm.txt").read_text())
    assert reading.gauges == {"queued": 3}
    assert reading.counters == {"tokens": 2560}
    assert reading.distributions["first_token"].quantile(0.95) == pytest.approx(0.4375)
    assert reading.distributions["inter_token"].mean == pytest.approx(0.02)
    assert reading.distributions["queue"].mean == pytest.approx(0.05)
    assert reading.distributions["compute"].mean == pytest.approx(6.0)


@pytest.mark.parametrize("text", ["", "<html>hello</html>", "process_cpu_seconds_total 3\n"])
def test_server_without_such_metrics_says_nothing(text: str) -> None:
    assert parse_server_metrics(text) == Reading()


def test_values_that_are_no_numbers_are_unknown() -> None:
    text = 'vllm:num_requests_waiting NaN\nvllm:generation_tokens_total{a="b"} nil\n'
    assert parse_server_metrics(text) == Reading()
