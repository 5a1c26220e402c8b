"""Queues of Volcano: a set comes only into one that is there and open."""

from typing import Any

import pytest

from kilonova.workloads.admission import Context, defaulted, validate_create, validate_update
from kilonova.workloads.settings import Settings
from tests.workloads.admission.written import clique, pod_clique_set, with_value

KEY = "scheduling.grove.io/volcano-queue"
PATH = f"metadata.annotations[{KEY}]"
SETTINGS = Settings(schedulers=("default-scheduler", "volcano"), backends=("volcano",))


def set_in(queue: str = "", scheduler: str = "volcano", **spec: Any) -> Any:
    own = with_value(clique("a"), "spec.podSpec.schedulerName", scheduler)
    written = defaulted(pod_clique_set(own))
    written["spec"] |= spec
    return with_value(written, "metadata.annotations", {KEY: queue} if queue else {})


def found(obj: Any, queues: dict[str, str | None] | None, old: Any = None) -> list[str]:
    context = Context(SETTINGS, queues=queues)
    findings = validate_create(obj, context) if old is None else validate_update(old, obj, context)
    return [f"{each.field}: {each.message}" for each in findings.problems]


CASES: dict[str, tuple[Any, dict[str, str | None] | None, list[str]]] = {
    "open": (set_in("q"), {"q": "Open"}, []),
    "missing": (
        set_in("q"),
        {"q": None},
        [f'{PATH}: Not found: "q": volcano queue "q" does not exist'],
    ),
    "closed": (
        set_in("q"),
        {"q": "Closed"},
        [f'{PATH}: Invalid value: "q": volcano queue "q" is not Open, but Closed'],
    ),
    "without a state": (
        set_in("q"),
        {"q": ""},
        [f'{PATH}: Invalid value: "q": volcano queue "q" is not Open, but without a state'],
    ),
    "the default where none is named": (
        set_in(),
        {"default": None},
        [f'{PATH}: Not found: "default": volcano queue "default" does not exist'],
    ),
    "nobody looked": (set_in("q"), None, []),
    "of another scheduler": (set_in("q", "default-scheduler"), {}, []),
}


@pytest.mark.parametrize("case", CASES)
def test_new_set_comes_into_an_open_queue(case: str) -> None:
    written, queues, problems = CASES[case]
    assert found(written, queues) == problems


def test_set_may_move_only_into_an_open_queue() -> None:
    assert found(set_in("b"), {"b": "Open"}, set_in("a")) == []
    (problem,) = found(set_in("b"), {"b": "Closed"}, set_in("a"))
    assert "is not Open" in problem


def test_set_stays_in_a_queue_that_is_closed_meanwhile() -> None:
    assert found(set_in("a", replicas=3), {"a": "Closed"}, set_in("a")) == []
    assert found(set_in("a"), {"a": None}, set_in("a")) == []


def test_queue_that_only_the_metadata_names_must_agree_after_a_change_too() -> None:
    own = with_value(clique("a"), "spec.podSpec.schedulerName", "volcano")
    before = defaulted(pod_clique_set({**own, "annotations": {KEY: "a"}}))
    after = with_value(before, "metadata.annotations", {KEY: "b"})
    (problem,) = found(after, {"b": "Open"}, before)
    assert "must be the same everywhere" in problem
