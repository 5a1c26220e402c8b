"""Startup dependencies between cliques."""

import pytest

from kilonova.api.grove.podcliqueset import ANY_ORDER, EXPLICIT, IN_ORDER, StartupType
from kilonova.workloads.builders.startup_order import resolve_starts_after
from tests.workloads.api_objects import build_group_member, clique, group, pod_clique_set


def resolve_names(
    startup: StartupType, clique_name: str, in_group: tuple[str, int] | None = None
) -> tuple[str, ...]:
    """In a set of a, then the group sg of b and c with two replicas at least, then d."""
    system = pod_clique_set(
        clique("a"),
        clique("b", after=["a"]),
        clique("c", after=["a", "b"]),
        clique("d", after=["c"]),
        groups=[group("sg", "b", "c", replicas=3, min_available=2)],
        startup=startup,
    )
    member = build_group_member(system, *in_group) if in_group else None
    return resolve_starts_after(system.spec.template, "sys", 0, clique_name, member)


@pytest.mark.parametrize(
    ("startup", "clique_name", "in_group", "expected"),
    [
        (ANY_ORDER, "d", None, ()),
        (ANY_ORDER, "c", ("sg", 0), ()),
        (IN_ORDER, "a", None, ()),
        (IN_ORDER, "b", ("sg", 0), ("sys-0-a",)),
        (IN_ORDER, "c", ("sg", 0), ("sys-0-sg-0-b", "sys-0-sg-1-b")),
        (IN_ORDER, "c", ("sg", 1), ("sys-0-sg-0-b", "sys-0-sg-1-b")),
        (IN_ORDER, "d", None, ("sys-0-sg-0-c", "sys-0-sg-1-c")),
        (IN_ORDER, "b", ("sg", 2), ()),
        (IN_ORDER, "c", ("sg", 2), ("sys-0-sg-2-b",)),
        (EXPLICIT, "c", ("sg", 1), ("sys-0-a", "sys-0-sg-0-b", "sys-0-sg-1-b")),
        (EXPLICIT, "c", ("sg", 2), ("sys-0-sg-2-b",)),
        (EXPLICIT, "d", None, ("sys-0-sg-0-c", "sys-0-sg-1-c")),
    ],
)
def test_dependencies_are_resolved_to_full_names(
    startup: StartupType,
    clique_name: str,
    in_group: tuple[str, int] | None,
    expected: tuple[str, ...],
) -> None:
    assert resolve_names(startup, clique_name, in_group) == expected


@pytest.mark.parametrize("startup", [IN_ORDER, EXPLICIT])
def test_order_within_a_scaled_gang_is_kept_across_outside_cliques(
    startup: StartupType,
) -> None:
    system = pod_clique_set(
        clique("first"),
        clique("between", after=["first"]),
        clique("last", after=["between"]),
        groups=[group("sg", "first", "last", replicas=2)],
        startup=startup,
    )

    after = resolve_starts_after(
        system.spec.template, "sys", 0, "last", build_group_member(system, "sg", 1)
    )

    assert after == ("sys-0-sg-1-first",)


def test_cliques_with_the_same_suffix_are_distinguished() -> None:
    system = pod_clique_set(
        clique("leader-worker"),
        clique("worker"),
        clique("proxy", after=["worker"]),
        startup=EXPLICIT,
        groups=[group("sg", "leader-worker")],
    )

    assert resolve_starts_after(system.spec.template, "sys", 0, "proxy", None) == ("sys-0-worker",)
