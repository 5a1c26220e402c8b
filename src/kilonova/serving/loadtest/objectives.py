"""Objectives of latencies, and whether a request meets them. Pure."""

from dataclasses import dataclass

from kilonova.api.durations import parse_duration
from kilonova.serving.loadtest.recorder import Sample

LATENCY, TTFT, ITL = "latency", "ttft", "itl"
_NAMES = (LATENCY, TTFT, ITL)
_EXAMPLE = "ttft=200ms,latency=2s"


@dataclass(frozen=True, slots=True)
class Objective:
    """A bound: of the latency, of the time to the first token (`ttft`), or of the mean time between
    two tokens of a request (`itl`)."""

    name: str
    seconds: float

    def is_met(self, sample: Sample) -> bool:
        """Whether a request meets it; a failed request never does, nor one without tokens."""
        value = {
            LATENCY: sample.latency,
            TTFT: sample.time_to_first_token,
            # A single token has no gap.
            ITL: 0.0 if sample.completion_tokens == 1 else sample.mean_token_gap,
        }[self.name]
        return sample.is_ok and value is not None and value <= self.seconds


def parse_objectives(text: str) -> tuple[Objective, ...]:
    """`ttft=200ms,latency=2s`; `ValueError` states what is wrong."""
    return tuple(_parse(each.strip()) for each in text.split(",")) if text else ()


def _parse(text: str) -> Objective:
    name, _, bound = text.partition("=")
    if name not in _NAMES:
        names = ", ".join(_NAMES)
        raise ValueError(f"{name!r} is no objective: use {names}, as in {_EXAMPLE}")
    try:
        seconds = parse_duration(bound)
    except ValueError:
        raise ValueError(f"{name}={bound} is no duration: write {_EXAMPLE}") from None
    if seconds <= 0:
        raise ValueError(f"{name}={bound}: use more than 0, as in {_EXAMPLE}")
    return Objective(name, seconds)
