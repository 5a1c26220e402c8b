"""Volcano queues: a set can enter only an existing and open queue."""

from typing import Any

import pytest

from kilonova.workloads.admission import (
    ValidationContext,
    apply_defaults,
    validate_create,
    validate_update,
)
from kilonova.workloads.settings import OperatorSettings
from tests.workloads.admission.set_manifests import clique, pod_clique_set, set_field

KEY = "scheduling.grove.io/volcano-queue"
PATH = f"metadata.annotations[{KEY}]"
SETTINGS = OperatorSettings(schedulers=("default-scheduler", "volcano"), backends=("volcano",))


def build_queued_set(queue: str = "", scheduler: str = "volcano", **spec: Any) -> Any:
    own = set_field(clique("a"), "spec.podSpec.schedulerName", scheduler)
    written = apply_defaults(pod_clique_set(own))
    written["spec"] |= spec
    return set_field(written, "metadata.annotations", {KEY: queue} if queue else {})


def validate_set(obj: Any, queues: dict[str, str | None] | None, old: Any = None) -> list[str]:
    context = ValidationContext(SETTINGS, queues=queues)
    result = validate_create(obj, context) if old is None else validate_update(old, obj, context)
    return [f"{each.field}: {each.message}" for each in result.errors]


CASES: dict[str, tuple[Any, dict[str, str | None] | None, list[str]]] = {
    "open": (build_queued_set("q"), {"q": "Open"}, []),
    "missing": (
        build_queued_set("q"),
        {"q": None},
        [f'{PATH}: Not found: "q": volcano queue "q" does not exist'],
    ),
    "closed": (
        build_queued_set("q"),
        {"q": "Closed"},
        [f'{PATH}: Invalid value: "q": volcano queue "q" is not Open: its state is Closed'],
    ),
    "without a state": (
        build_queued_set("q"),
        {"q": ""},
        [f'{PATH}: Invalid value: "q": volcano queue "q" is not Open: its state is unset'],
    ),
    "the default where none is named": (
        build_queued_set(),
        {"default": None},
        [f'{PATH}: Not found: "default": volcano queue "default" does not exist'],
    ),
    "queues not read": (build_queued_set("q"), None, []),
    "of another scheduler": (build_queued_set("q", "default-scheduler"), {}, []),
}


@pytest.mark.parametrize("case", CASES)
def test_new_set_needs_an_open_queue(case: str) -> None:
    written, queues, problems = CASES[case]
    assert validate_set(written, queues) == problems


def test_set_may_move_only_into_an_open_queue() -> None:
    assert validate_set(build_queued_set("b"), {"b": "Open"}, build_queued_set("a")) == []
    (problem,) = validate_set(build_queued_set("b"), {"b": "Closed"}, build_queued_set("a"))
    assert "is not Open" in problem


def test_set_stays_in_a_queue_that_was_closed() -> None:
    assert (
        validate_set(build_queued_set("a", replicas=3), {"a": "Closed"}, build_queued_set("a"))
        == []
    )
    assert validate_set(build_queued_set("a"), {"a": None}, build_queued_set("a")) == []


def test_queue_named_only_in_metadata_must_match_after_a_change() -> None:
    own = set_field(clique("a"), "spec.podSpec.schedulerName", "volcano")
    before = apply_defaults(pod_clique_set({**own, "annotations": {KEY: "a"}}))
    after = set_field(before, "metadata.annotations", {KEY: "b"})
    (problem,) = validate_set(after, {"b": "Open"}, before)
    assert "must be the same everywhere" in problem
