"""The merge patch between two statuses, checked by applying it."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from kilonova.api.meta import Condition
from kilonova.kube.status import build_status_patch


class Progress(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    done: int = 0
    names: tuple[str, ...] = ()


class Status(msgspec.Struct, frozen=True, rename="camel"):
    observed_generation: int = 0
    phase: str = ""
    update_progress: Progress | None = None
    conditions: tuple[Condition, ...] = ()


def test_equal_statuses_need_no_patch() -> None:
    status = Status(3, "Running", Progress(1, ("a",)))
    assert build_status_patch(status, status) is None


def test_patch_has_only_fields_that_differ() -> None:
    old = Status(3, "Running", Progress(1))
    assert build_status_patch(old, Status(4, "Running", Progress(1))) == {"observedGeneration": 4}


def test_emptied_field_is_removed() -> None:
    old = Status(conditions=(Condition("Ready", "True"),))
    assert build_status_patch(old, Status()) == {"conditions": None}


statuses = st.builds(
    Status,
    st.integers(0, 3),
    st.sampled_from(["", "Running"]),
    st.none() | st.builds(Progress, st.integers(0, 2), st.tuples(st.sampled_from("ab"))),
    st.lists(
        st.builds(Condition, st.sampled_from("xy"), st.sampled_from(["True", "False"])), max_size=2
    ).map(tuple),
)


@given(statuses, statuses)
def test_patched_status_equals_the_new_one(old: Status, new: Status) -> None:
    stored = apply_merge_patch(msgspec.to_builtins(old), build_status_patch(old, new) or {})
    assert msgspec.convert(stored, Status) == new


def apply_merge_patch(value: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(value) if isinstance(value, dict) else {}
    for name, change in patch.items():
        if change is None:
            result.pop(name, None)
        else:
            result[name] = apply_merge_patch(result.get(name), change)
    return result
