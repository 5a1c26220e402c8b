"""SchedulerConfiguration: what it sets, and what is refused."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kilonova.cli.failure import CommandFailed
from kilonova.cli.schedulerconfig import (
    SchedulerConfiguration,
    parse_scheduler_configuration,
    read_scheduler_configuration,
)
from kilonova.scheduler.core.plan import Policy
from kilonova.scheduler.settings import Settings

HEAD = {"apiVersion": "scheduler.config.kilonova.dev/v1alpha1", "kind": "SchedulerConfiguration"}


def parsed(**fields: Any) -> SchedulerConfiguration:
    return parse_scheduler_configuration(msgspec.yaml.encode({**HEAD, **fields}))


def test_what_is_not_said_is_as_usual() -> None:
    assert parsed().settings() == Settings()


def test_everything_can_be_said() -> None:
    settings = parsed(
        schedulerNames=["one", "two"],
        weights={"fit": 0, "topology": 2.5},
        topologyLevels=["zone", "rack"],
        evictions=False,
        reserveAfter="1m30s",
        retryAfter="5s",
        evictionPatience="3m",
        giveBackAfter="2m",
        tellEvery="1s",
        concurrentBindings=8,
        logLevel="debug",
    ).settings()
    assert settings == Settings(
        serves=frozenset({"one", "two"}),
        policy=Policy(levels=("zone", "rack"), evicts=False, reserve_after=90.0),
        weights={"fit": 0, "topology": 2.5},
        concurrency=8,
        retry=5.0,
        patience=180.0,
        half_after=120.0,
        pace=1.0,
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"weight": {}}, "weight: is no field of SchedulerConfiguration: it has apiVersion, "),
        ({"evictions": "no"}, "evictions: Expected `bool | null`, got `str`: 'no'"),
        ({"weights": {"luck": 1}}, "weights.luck: is no part of the score: name one of wishes, "),
        ({"weights": {"fit": -1}}, "weights.fit: -1 must be 0 or more"),
        ({"weights": {"fit": "much"}}, "weights: Expected `float`, got `str`"),
        (
            {"weights": {"wishes": 0, "fit": 0, "topology": 0, "balance": 0}},
            "leave nothing to score by: give one of them more than 0",
        ),
        ({"reserveAfter": "soon"}, "reserveAfter: 'soon' is no duration: write it as 30s or 1m30s"),
        ({"giveBackAfter": "0s"}, "giveBackAfter: '0s' must be greater than 0"),
        ({"concurrentBindings": 0}, "concurrentBindings: 0 must be from 1 to 1024"),
        ({"schedulerNames": ["a", "a"]}, "schedulerNames[1]: 'a' is there twice: leave one out"),
        ({"topologyLevels": [""]}, "topologyLevels[0]: is empty: write a name, or leave it out"),
        ({"kind": "Other"}, "kind: Invalid enum value 'Other'"),
        ({"logLevel": "loud"}, "logLevel: Invalid enum value 'loud'"),
    ],
)
def test_bad_values_are_refused_with_field_value_and_rule(
    fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        parsed(**fields)


def test_a_file_that_cannot_be_read_or_is_something_else_is_named(tmp_path: Path) -> None:
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
        ("- 1", "is no SchedulerConfiguration"),
    ):
        file.write_text(content)
        with pytest.raises(CommandFailed) as refused:
            read_scheduler_configuration(file)
        assert str(refused.value) == f"{file}: {message}"
