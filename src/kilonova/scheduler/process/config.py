"""SchedulerConfiguration: `kilonova run scheduler --config FILE`.

    apiVersion: scheduler.config.kilonova.dev/v1alpha1
    kind: SchedulerConfiguration
    schedulerNames: [kilonova-scheduler]
    weights: {topology: 40, fit: 35, balance: 25}
    topologyLevels: [topology.kubernetes.io/zone, example.com/rack]
    evictions: true
    reserveAfter: 5m
    consolidation: {maxPerHour: 20, maxConcurrent: 4}

Every field is optional. Unknown fields are errors, so that a misspelt one is not silently ignored.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from kilonova.api.durations import parse_duration
from kilonova.component.process.config_files import convert_fields, parse_yaml_object, read_config
from kilonova.scheduler.core.scheduling_cycle import PlannerPolicy
from kilonova.scheduler.score_plugins import build_scoring
from kilonova.scheduler.settings import ConsolidationLimits, SchedulerSettings

KIND = "SchedulerConfiguration"


class ConsolidationConfiguration(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True
):
    """Limits of consolidation: how many pods may be migrated to free nodes."""

    interval: str | None = None
    """Interval between two consolidation attempts."""
    max_concurrent: int | None = None
    """Migrations in progress at the same time."""
    max_per_hour: int | None = None
    """Migrations within any hour."""
    max_lost_gpu_time: str | None = None
    """Work that migrations may lose within an hour: GPUs times their running time."""
    min_arrivals_per_migration: int | None = None
    """Pods that must have arrived per migration."""
    replacement_timeout: str | None = None
    """How long capacity is held for a replacement pod."""

    def to_limits(self) -> ConsolidationLimits:
        """The limits, with defaults for absent fields."""
        defaults = ConsolidationLimits()
        return ConsolidationLimits(
            interval=_parse_seconds(self.interval, defaults.interval),
            max_concurrent=self.max_concurrent or defaults.max_concurrent,
            max_per_hour=self.max_per_hour or defaults.max_per_hour,
            max_lost_gpu_seconds=_parse_seconds(
                self.max_lost_gpu_time, defaults.max_lost_gpu_seconds
            ),
            min_arrivals_per_migration=self.min_arrivals_per_migration
            or defaults.min_arrivals_per_migration,
            replacement_timeout=_parse_seconds(
                self.replacement_timeout, defaults.replacement_timeout
            ),
        )


class SchedulerConfiguration(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True
):
    """The whole file."""

    api_version: Literal["scheduler.config.kilonova.dev/v1alpha1"]
    kind: Literal["SchedulerConfiguration"]
    scheduler_names: tuple[str, ...] = ()
    """Pods with one of these values of `schedulerName` are scheduled."""
    weights: dict[str, float] = {}
    """Weights of score plugins; 0 disables one."""
    topology_levels: tuple[str, ...] = ()
    """Node label keys whose values are topology domains, the broadest first."""
    evictions: bool | None = None
    """Whether pods may be preempted."""
    reserve_after: str | None = None
    """How long a gang is pending before capacity is reserved for it."""
    retry_interval: str | None = None
    """How soon pending gangs are retried without any event."""
    eviction_timeout: str | None = None
    """How long victims may take to terminate."""
    partial_gang_timeout: str | None = None
    """After this time a gang whose minimum was never bound is evicted."""
    status_interval: str | None = None
    """Minimum interval between two status updates of a gang."""
    concurrent_bindings: int | None = None
    """Maximum number of bindings in progress."""
    consolidation: ConsolidationConfiguration | None = None
    """Enables consolidation, with its limits; absent means disabled."""
    avoid_failed_nodes_for: str | None = None
    """How long a workload avoids nodes on which it failed, if there are others."""
    log_level: Literal["debug", "info", "warning", "error"] | None = None

    def to_settings(self) -> SchedulerSettings:
        """The settings, with defaults for absent fields."""
        defaults, policy = SchedulerSettings(), PlannerPolicy()
        return SchedulerSettings(
            scheduler_names=frozenset(self.scheduler_names) or defaults.scheduler_names,
            policy=PlannerPolicy(
                levels=self.topology_levels or policy.levels,
                preemption_enabled=policy.preemption_enabled
                if self.evictions is None
                else self.evictions,
                reserve_after=_parse_seconds(self.reserve_after, policy.reserve_after),
            ),
            weights=self.weights,
            concurrent_bindings=self.concurrent_bindings or defaults.concurrent_bindings,
            retry_interval=_parse_seconds(self.retry_interval, defaults.retry_interval),
            eviction_timeout=_parse_seconds(self.eviction_timeout, defaults.eviction_timeout),
            partial_gang_timeout=_parse_seconds(
                self.partial_gang_timeout, defaults.partial_gang_timeout
            ),
            status_interval=_parse_seconds(self.status_interval, defaults.status_interval),
            consolidation=None if self.consolidation is None else self.consolidation.to_limits(),
            avoid_failed_nodes_for=_parse_seconds(
                self.avoid_failed_nodes_for, defaults.avoid_failed_nodes_for
            ),
        )


def read_scheduler_configuration(file: Path) -> SchedulerConfiguration:
    """Read the file; `CommandFailed` names the invalid field, its value and the rule."""
    return read_config(file, parse_scheduler_configuration)


def parse_scheduler_configuration(content: bytes) -> SchedulerConfiguration:
    """The configuration in a YAML document; ValueError names the invalid field and the rule."""
    fields = parse_yaml_object(content, KIND)
    known = {each.encode_name for each in msgspec.structs.fields(SchedulerConfiguration)}
    for name in fields:
        if name not in known:
            raise ValueError(
                f"{name}: unknown field of {KIND}: known are {', '.join(sorted(known))}"
            )
    configuration = convert_fields(fields, SchedulerConfiguration)
    problem = next(_find_problems(configuration), None)
    if problem is not None:
        raise ValueError(problem)
    return configuration


def _find_problems(configuration: SchedulerConfiguration) -> Iterator[str]:
    yield from _find_repeated("schedulerNames", configuration.scheduler_names)
    yield from _find_repeated("topologyLevels", configuration.topology_levels)
    yield from _find_weight_problems(configuration.weights)
    consolidation = configuration.consolidation or ConsolidationConfiguration()
    for field, number in (
        ("maxConcurrent", consolidation.max_concurrent),
        ("maxPerHour", consolidation.max_per_hour),
        ("minArrivalsPerMigration", consolidation.min_arrivals_per_migration),
    ):
        if number is not None and number < 1:
            rule = "must be 1 or more; to disable consolidation, leave out `consolidation`"
            yield f"consolidation.{field}: {number} {rule}"
    for field, text in (
        ("consolidation.interval", consolidation.interval),
        ("consolidation.maxLostGpuTime", consolidation.max_lost_gpu_time),
        ("consolidation.replacementTimeout", consolidation.replacement_timeout),
        ("reserveAfter", configuration.reserve_after),
        ("retryInterval", configuration.retry_interval),
        ("evictionTimeout", configuration.eviction_timeout),
        ("partialGangTimeout", configuration.partial_gang_timeout),
        ("statusInterval", configuration.status_interval),
        ("avoidFailedNodesFor", configuration.avoid_failed_nodes_for),
    ):
        try:
            seconds = _parse_seconds(text, 1.0)
        except ValueError:
            yield f"{field}: {text!r} is not a duration: write it as 30s or 1m30s"
            continue
        if seconds <= 0:
            yield f"{field}: {text!r} must be greater than 0"
    bindings = configuration.concurrent_bindings
    if bindings is not None and not 1 <= bindings <= 1024:
        yield f"concurrentBindings: {bindings} must be from 1 to 1024"


def _find_weight_problems(weights: dict[str, float]) -> Iterator[str]:
    defaults = {plugin.name: plugin.weight for plugin in build_scoring({}).plugins}
    for name, weight in weights.items():
        if name not in defaults:
            yield f"weights.{name}: unknown score plugin: use one of {', '.join(defaults)}"
        if not math.isfinite(weight) or weight < 0:
            yield f"weights.{name}: {weight:g} must be 0 or more"
    if not any((defaults | weights).values()):
        yield f"weights: {weights} disable all score plugins: set one to more than 0"


def _find_repeated(field: str, names: tuple[str, ...]) -> Iterator[str]:
    for index, name in enumerate(names):
        if not name:
            yield f"{field}[{index}]: must not be empty"
        if name in names[:index]:
            yield f"{field}[{index}]: {name!r} is a duplicate"


def _parse_seconds(text: str | None, default: float) -> float:
    return default if text is None else parse_duration(text)
