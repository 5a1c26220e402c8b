"""The annotation with live metrics of GPUs."""

import pytest

from kilonova.api.gpu.metrics import GpuReading, format_readings, parse_readings


def test_readings_survive_the_annotation() -> None:
    readings = (GpuReading(0, 0.83, 41_210, 512.5, 61.0), GpuReading(3))
    text = format_readings(readings)
    assert parse_readings(text) == readings
    assert text.endswith('{"index":3}]')


@pytest.mark.parametrize(
    "text",
    ["", "no", "{}", '[{"utilisation": 1}]', '[{"index": 0, "utilisation": 83}]', "[" * 5000],
)
def test_invalid_annotation_has_no_readings(text: str) -> None:
    assert parse_readings(text) == ()


def test_unknown_fields_are_ignored() -> None:
    assert parse_readings('[{"index": 1, "fan": 3}]') == (GpuReading(1),)
