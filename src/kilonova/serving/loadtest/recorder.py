"""The samples of a run: kept complete, in columns, so that percentiles are exact."""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isnan, nan

from kilonova.serving.loadtest.outcome import Outcome

MAX_SAMPLES = 5_000_000
"""Requests of a run; a run ends when it has as many. They take 300 MB."""
_MAX_GAPS = 4_000_000
_MAX_MESSAGES = 3
_MAX_MESSAGE_LENGTH = 300


@dataclass(frozen=True, slots=True)
class Sample:
    """A request. Times are seconds after the start of the run."""

    start: float
    """When its latency begins to count."""
    sent: float
    end: float
    status: str
    is_ok: bool
    time_to_first_token: float | None
    """From `start`."""
    mean_token_gap: float | None
    prompt_tokens: int
    completion_tokens: int

    @property
    def latency(self) -> float:
        """From the start to the end of the answer."""
        return self.end - self.start

    @property
    def service_time(self) -> float:
        """From when it was sent to the end of the answer."""
        return self.end - self.sent


@dataclass(slots=True)
class FailureMessages:
    """The first different messages of a status."""

    count: int = 0
    messages: list[str] = field(default_factory=list[str])


class Recorder:
    """Takes samples while a run goes on."""

    def __init__(self, warm_up: float = 0.0) -> None:
        self._warm_up = warm_up
        self._starts, self._sents, self._ends = array("d"), array("d"), array("d")
        self._first_tokens, self._mean_gaps = array("d"), array("d")
        self._prompt_tokens, self._completion_tokens = array("q"), array("q")
        self._statuses, self._oks = array("H"), array("b")
        self._status_names: list[str] = []
        self._status_numbers: dict[str, int] = {}
        self._gaps = array("f")
        self._gap_stride = 1
        self._gaps_seen = 0
        self.failures: dict[str, FailureMessages] = {}
        self.succeeded = 0

    def __len__(self) -> int:
        return len(self._starts)

    def __iter__(self) -> Iterator[Sample]:
        for index, start in enumerate(self._starts):
            first, gap = self._first_tokens[index], self._mean_gaps[index]
            yield Sample(
                start=start,
                sent=self._sents[index],
                end=self._ends[index],
                status=self._status_names[self._statuses[index]],
                is_ok=bool(self._oks[index]),
                time_to_first_token=None if isnan(first) else first - start,
                mean_token_gap=None if isnan(gap) else gap,
                prompt_tokens=self._prompt_tokens[index],
                completion_tokens=self._completion_tokens[index],
            )

    @property
    def is_full(self) -> bool:
        """Whether no further samples can be recorded."""
        return len(self) >= MAX_SAMPLES

    @property
    def token_gaps(self) -> "array[float]":
        """Seconds between the parts of streams that began after the warm-up and succeeded; of very
        many, each n-th."""
        return self._gaps

    def add(self, start: float, sent: float, end: float, outcome: Outcome, origin: float) -> None:
        """Take a request. Times are those of a clock, which read `origin` at the start."""
        self._starts.append(start - origin)
        self._sents.append(sent - origin)
        self._ends.append(end - origin)
        first = outcome.first_token_at
        self._first_tokens.append(nan if first is None else first - origin)
        gaps = outcome.token_gaps
        self._mean_gaps.append(sum(gaps) / len(gaps) if gaps else nan)
        self._prompt_tokens.append(outcome.prompt_tokens)
        self._completion_tokens.append(outcome.completion_tokens)
        self._statuses.append(self._get_status_number(outcome.status))
        self._oks.append(outcome.is_ok)
        if outcome.is_ok and start - origin >= self._warm_up:
            self._add_gaps(gaps)
        if outcome.is_ok:
            self.succeeded += 1
        else:
            self._add_failure(outcome)

    def _get_status_number(self, status: str) -> int:
        number = self._status_numbers.get(status)
        if number is None:
            number = self._status_numbers[status] = len(self._status_names)
            self._status_names.append(status)
        return number

    def _add_gaps(self, gaps: tuple[float, ...]) -> None:
        for gap in gaps:
            if self._gaps_seen % self._gap_stride == 0:
                self._gaps.append(gap)
            self._gaps_seen += 1
        if len(self._gaps) > _MAX_GAPS:
            del self._gaps[1::2]
            self._gap_stride *= 2

    def _add_failure(self, outcome: Outcome) -> None:
        failure = self.failures.setdefault(outcome.status, FailureMessages())
        failure.count += 1
        message = " ".join(outcome.message.split())[:_MAX_MESSAGE_LENGTH]
        known = failure.messages
        if message and len(known) < _MAX_MESSAGES and message not in known:
            known.append(message)
