"""SchedulerConfiguration: defaults, all fields, and invalid values."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kilonova.component.failure import CommandFailed
from kilonova.scheduler.core.scheduling_cycle import PlannerPolicy
from kilonova.scheduler.process.config import (
    SchedulerConfiguration,
    parse_scheduler_configuration,
    read_scheduler_configuration,
)
from kilonova.scheduler.settings import SchedulerSettings

HEAD = {"apiVersion": "scheduler.config.kilonova.dev/v1alpha1", "kind": "SchedulerConfiguration"}


def parse(**fields: Any) -> SchedulerConfiguration:
    return parse_scheduler_configuration(msgspec.yaml.encode({**HEAD, **fields}))


def test_absent_fields_have_defaults() -> None:
    assert parse().to_settings() == SchedulerSettings()


def test_every_field_is_read() -> None:
    settings = parse(
        schedulerNames=["one", "two"],
        weights={"fit": 0, "topology": 2.5},
        topologyLevels=["zone", "rack"],
        evictions=False,
        reserveAfter="1m30s",
        retryInterval="5s",
        evictionTimeout="3m",
        partialGangTimeout="2m",
        statusInterval="1s",
        concurrentBindings=8,
        logLevel="debug",
    ).to_settings()
    assert settings == SchedulerSettings(
        scheduler_names=frozenset({"one", "two"}),
        policy=PlannerPolicy(levels=("zone", "rack"), preemption_enabled=False, reserve_after=90.0),
        weights={"fit": 0, "topology": 2.5},
        concurrent_bindings=8,
        retry_interval=5.0,
        eviction_timeout=180.0,
        partial_gang_timeout=120.0,
        status_interval=1.0,
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"weight": {}}, "weight: unknown field of SchedulerConfiguration: known are apiVersion, "),
        ({"evictions": "no"}, "evictions: Expected `bool | null`, got `str`: 'no'"),
        (
            {"weights": {"luck": 1}},
            "weights.luck: unknown score plugin: use one of preferences, ",
        ),
        ({"weights": {"fit": -1}}, "weights.fit: -1 must be 0 or more"),
        ({"weights": {"fit": "much"}}, "weights: Expected `float`, got `str`"),
        (
            {"weights": {"preferences": 0, "fit": 0, "topology": 0, "balance": 0}},
            "disable all score plugins: set one to more than 0",
        ),
        (
            {"reserveAfter": "soon"},
            "reserveAfter: 'soon' is not a duration: write it as 30s or 1m30s",
        ),
        ({"partialGangTimeout": "0s"}, "partialGangTimeout: '0s' must be greater than 0"),
        ({"concurrentBindings": 0}, "concurrentBindings: 0 must be from 1 to 1024"),
        ({"schedulerNames": ["a", "a"]}, "schedulerNames[1]: 'a' is a duplicate"),
        ({"topologyLevels": [""]}, "topologyLevels[0]: must not be empty"),
        ({"kind": "Other"}, "kind: Invalid enum value 'Other'"),
        ({"logLevel": "loud"}, "logLevel: Invalid enum value 'loud'"),
    ],
)
def test_invalid_values_are_rejected_with_field_value_and_rule(
    fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        parse(**fields)


def test_unreadable_or_invalid_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="none: cannot be read: No such file"):
        read_scheduler_configuration(tmp_path / "none")
    file = tmp_path / "config.yaml"
    for content, message in (
        ("a: [", "is not YAML: did not find expected node content in line 2"),
        (
            "kind: x\na: b: c",
            "is not YAML: mapping values are not allowed in this context in line 2",
        ),
        ("a: \x01", "is not YAML: control characters are not allowed"),
        ("- 1", "is not a SchedulerConfiguration"),
    ):
        file.write_text(content)
        with pytest.raises(CommandFailed) as failure:
            read_scheduler_configuration(file)
        assert str(failure.value) == f"{file}: {message}"
