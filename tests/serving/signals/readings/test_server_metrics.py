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


@pytest.mark.parametrize("value", ["NaN", "nil", "-5", "1e308", "1e999"])
def test_values_that_cannot_be_are_unknown(value: str) -> None:
    text = (
        f'vllm:num_requests_waiting{{model_name="a"}} {value}\n'
        f'vllm:num_requests_waiting{{model_name="b"}} {value}\n'
        f'vllm:generation_tokens_total{{a="b"}} {value}\n'
    )
    assert parse_server_metrics(text) == Reading()


def test_bucket_whose_bound_cannot_be_is_left_out() -> None:
    name = "vllm:time_to_first_token_seconds"
    bounds = ["1", "1e308", "NaN", "-1", "+Inf", "x"]
    buckets = "".join(f'{name}_bucket{{le="{each}"}} 4\n' for each in bounds)
    reading = parse_server_metrics(f"{buckets}{name}_sum 2\n{name}_count 4\n")
    assert reading.distributions["first_token"].bounds == (1.0,)
