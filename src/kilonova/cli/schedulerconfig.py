"""The file of `kilonova run scheduler --config FILE`: how the scheduler decides and writes.

    apiVersion: scheduler.config.kilonova.dev/v1alpha1
    kind: SchedulerConfiguration
    schedulerNames: [kilonova-scheduler]
    weights: {topology: 40, fit: 35, balance: 25}
    topologyLevels: [topology.kubernetes.io/zone, example.com/rack]
    evictions: true
    reserveAfter: 5m
    moves: {perHour: 20, atOnce: 4}

Every field may be left out, and no other may be there: a wrong name is an error, not a wish that
nobody heeds.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from kilonova.api.durations import parse_duration
from kilonova.cli.configfiles import converted, fields_of, read_config
from kilonova.scheduler.core.plan import Policy
from kilonova.scheduler.movelimits import MoveLimits
from kilonova.scheduler.scheduler import scoring_of
from kilonova.scheduler.settings import Settings

KIND = "SchedulerConfiguration"


class MovesConfiguration(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """How much may be moved so that nodes become free."""

    every: str | None = None
    """How often it is looked what could be moved."""
    at_once: int | None = None
    """Moves that are under way at the same time."""
    per_hour: int | None = None
    """Moves within any hour."""
    lost_gpu_time: str | None = None
    """Work that the moves of an hour may cost: GPUs times how long they have run."""
    arrivals_each: int | None = None
    """Pods that must have arrived for each move."""
    return_within: str | None = None
    """How long room is held for those who come back."""

    def limits(self) -> MoveLimits:
        """What it says, and what is usual where it says nothing."""
        usual = MoveLimits()
        return MoveLimits(
            every=_seconds(self.every, usual.every),
            at_once=self.at_once or usual.at_once,
            per_hour=self.per_hour or usual.per_hour,
            lost_work=_seconds(self.lost_gpu_time, usual.lost_work),
            arrivals_each=self.arrivals_each or usual.arrivals_each,
            return_within=_seconds(self.return_within, usual.return_within),
        )


class SchedulerConfiguration(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True
):
    """The whole file."""

    api_version: Literal["scheduler.config.kilonova.dev/v1alpha1"]
    kind: Literal["SchedulerConfiguration"]
    scheduler_names: tuple[str, ...] = ()
    """Which pods are placed: those whose `schedulerName` is one of these."""
    weights: dict[str, float] = {}
    """How much each part of a node's score counts; 0 leaves it out."""
    topology_levels: tuple[str, ...] = ()
    """Keys of node labels whose values are domains, the broadest first."""
    evictions: bool | None = None
    """Whether pods may have to make way for others."""
    reserve_after: str | None = None
    """How long a gang waits until room is kept for it."""
    retry_after: str | None = None
    """How soon gangs without a place are tried again though nothing happened."""
    eviction_patience: str | None = None
    """How long pods that have to make way are waited for."""
    give_back_after: str | None = None
    """How long a gang that never was whole keeps what it has of its pods."""
    tell_every: str | None = None
    """How often at most what is told about one gang changes."""
    concurrent_bindings: int | None = None
    """How many bindings are on their way at once."""
    moves: MovesConfiguration | None = None
    """Whether pods are moved so that nodes become free, and how many; without it none is."""
    avoid_failed_nodes_for: str | None = None
    """How long a workload keeps off nodes on which it failed, if there are others."""
    log_level: Literal["debug", "info", "warning", "error"] | None = None

    def settings(self) -> Settings:
        """What it says, and what is usual where it says nothing."""
        usual, policy = Settings(), Policy()
        return Settings(
            serves=frozenset(self.scheduler_names) or usual.serves,
            policy=Policy(
                levels=self.topology_levels or policy.levels,
                evicts=policy.evicts if self.evictions is None else self.evictions,
                reserve_after=_seconds(self.reserve_after, policy.reserve_after),
            ),
            weights=self.weights,
            concurrency=self.concurrent_bindings or usual.concurrency,
            retry=_seconds(self.retry_after, usual.retry),
            patience=_seconds(self.eviction_patience, usual.patience),
            half_after=_seconds(self.give_back_after, usual.half_after),
            pace=_seconds(self.tell_every, usual.pace),
            moves=None if self.moves is None else self.moves.limits(),
            avoid_for=_seconds(self.avoid_failed_nodes_for, usual.avoid_for),
        )


def read_scheduler_configuration(file: Path) -> SchedulerConfiguration:
    """Read the file; `CommandFailed` names the field that cannot be, its value and the rule."""
    return read_config(file, parse_scheduler_configuration)


def parse_scheduler_configuration(content: bytes) -> SchedulerConfiguration:
    """The configuration in a YAML text; ValueError says what is wrong with which field."""
    written = fields_of(content, KIND)
    known = {each.encode_name for each in msgspec.structs.fields(SchedulerConfiguration)}
    for name in written:
        if name not in known:
            raise ValueError(f"{name}: is no field of {KIND}: it has {', '.join(sorted(known))}")
    read = converted(written, SchedulerConfiguration)
    problem = next(_problems(read), None)
    if problem is not None:
        raise ValueError(problem)
    return read


def _problems(read: SchedulerConfiguration) -> Iterator[str]:
    yield from _repeated("schedulerNames", read.scheduler_names)
    yield from _repeated("topologyLevels", read.topology_levels)
    yield from _weight_problems(read.weights)
    moves = read.moves or MovesConfiguration()
    for field, number in (
        ("atOnce", moves.at_once),
        ("perHour", moves.per_hour),
        ("arrivalsEach", moves.arrivals_each),
    ):
        if number is not None and number < 1:
            yield f"moves.{field}: {number} must be 1 or more; to move nothing, leave out `moves`"
    for field, text in (
        ("moves.every", moves.every),
        ("moves.lostGpuTime", moves.lost_gpu_time),
        ("moves.returnWithin", moves.return_within),
        ("reserveAfter", read.reserve_after),
        ("retryAfter", read.retry_after),
        ("evictionPatience", read.eviction_patience),
        ("giveBackAfter", read.give_back_after),
        ("tellEvery", read.tell_every),
        ("avoidFailedNodesFor", read.avoid_failed_nodes_for),
    ):
        try:
            seconds = _seconds(text, 1.0)
        except ValueError:
            yield f"{field}: {text!r} is no duration: write it as 30s or 1m30s"
            continue
        if seconds <= 0:
            yield f"{field}: {text!r} must be greater than 0"
    bindings = read.concurrent_bindings
    if bindings is not None and not 1 <= bindings <= 1024:
        yield f"concurrentBindings: {bindings} must be from 1 to 1024"


def _weight_problems(weights: dict[str, float]) -> Iterator[str]:
    usual = {part.name: part.weight for part in scoring_of({}).parts}
    for name, weight in weights.items():
        if name not in usual:
            yield f"weights.{name}: is no part of the score: name one of {', '.join(usual)}"
        if not math.isfinite(weight) or weight < 0:
            yield f"weights.{name}: {weight:g} must be 0 or more"
    if not any((usual | weights).values()):
        yield f"weights: {weights} leave nothing to score by: give one of them more than 0"


def _repeated(field: str, names: tuple[str, ...]) -> Iterator[str]:
    for index, name in enumerate(names):
        if not name:
            yield f"{field}[{index}]: is empty: write a name, or leave it out"
        if name in names[:index]:
            yield f"{field}[{index}]: {name!r} is there twice: leave one out"


def _seconds(text: str | None, default: float) -> float:
    return default if text is None else parse_duration(text)
