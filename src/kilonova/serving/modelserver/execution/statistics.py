"""Counts and durations of a model, as Triton has them. Times are in nanoseconds."""

import time
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class ExecutionTimes(NamedTuple):
    """How long the parts of an execution took."""

    input: int
    infer: int
    output: int


@dataclass(slots=True)
class Duration:
    """How often, and how long in total."""

    count: int = 0
    ns: int = 0

    def add(self, ns: int) -> None:
        self.count += 1
        self.ns += ns

    def describe(self) -> dict[str, int]:
        return {"count": self.count, "ns": self.ns}


@dataclass(slots=True)
class ExecutionDurations:
    """The durations of executions with the same size of batch, or of all."""

    input: Duration = field(default_factory=Duration)
    infer: Duration = field(default_factory=Duration)
    output: Duration = field(default_factory=Duration)

    def add(self, times: ExecutionTimes) -> None:
        self.input.add(times.input)
        self.infer.add(times.infer)
        self.output.add(times.output)

    def describe(self) -> dict[str, Any]:
        return {
            "compute_input": self.input.describe(),
            "compute_infer": self.infer.describe(),
            "compute_output": self.output.describe(),
        }


@dataclass(slots=True)
class ModelStatistics:
    """The statistics of a model since it was loaded."""

    success: Duration = field(default_factory=Duration)
    failures: dict[str, Duration] = field(default_factory=dict[str, Duration])
    """By reason, in Triton's words: OTHER, REJECTED, CANCELED, BACKEND."""
    queue: Duration = field(default_factory=Duration)
    compute: ExecutionDurations = field(default_factory=ExecutionDurations)
    """Of each request: the whole execution that it was part of."""
    batches: dict[int, ExecutionDurations] = field(default_factory=dict[int, ExecutionDurations])
    """Of each execution, by the size of its batch."""
    inferences: int = 0
    executions: int = 0
    last_inference_ms: int = 0

    def add_execution(self, batch: int, times: ExecutionTimes) -> None:
        """An execution that succeeded."""
        self.executions += 1
        self.inferences += batch
        self.last_inference_ms = time.time_ns() // 1_000_000
        durations = self.batches.get(batch)
        if durations is None:
            durations = self.batches[batch] = ExecutionDurations()
        durations.add(times)

    def add_success(self, queue: int, times: ExecutionTimes, total: int) -> None:
        """A request that succeeded."""
        self.queue.add(queue)
        self.compute.add(times)
        self.success.add(total)

    def add_failure(self, reason: str, total: int) -> None:
        """A request that failed."""
        self.failures.setdefault(reason, Duration()).add(total)

    def describe(self, name: str, version: str) -> dict[str, Any]:
        """The statistics in the form of the protocol."""
        failures = self.failures.values()
        fail = {"count": sum(f.count for f in failures), "ns": sum(f.ns for f in failures)}
        return {
            "name": name,
            "version": version,
            "last_inference": self.last_inference_ms,
            "inference_count": self.inferences,
            "execution_count": self.executions,
            "inference_stats": {
                "success": self.success.describe(),
                "fail": fail,
                "queue": self.queue.describe(),
                **self.compute.describe(),
            },
            "batch_stats": [
                {"batch_size": size, **durations.describe()}
                for size, durations in sorted(self.batches.items())
            ],
        }
