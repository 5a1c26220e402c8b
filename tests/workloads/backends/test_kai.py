"""KAI's PodGroups: made from gangs, as a table of values."""

from typing import Any

import pytest

from kilonova.api.grove.topology import SchedulerTopology
from kilonova.api.podgang import PodGang
from kilonova.workloads.backends import KAI
from kilonova.workloads.backends.interface import PodGroupContext
from kilonova.workloads.backends.kai.backend import NODE_POOL, KaiBackend
from kilonova.workloads.backends.queues import QUEUE_KEYS
from tests.workloads.api_objects import clique, pod_clique_set, topology, without_nulls
from tests.workloads.backends.backend_objects import (
    BINDING,
    build_gang,
    build_queued_set,
    pack_constraint,
    to_stored_object,
)

QUEUE = QUEUE_KEYS[KAI]


def build_spec(of: PodGang, around: PodGroupContext | None = None) -> Any:
    body = (
        KaiBackend().build_pod_group(of, around or PodGroupContext(build_queued_set(KAI, "q"))).body
    )
    assert body is not None
    return without_nulls(body)["spec"]


def build_level(required: str = "", preferred: str = "", name: str = BINDING) -> Any:
    sides = {"requiredTopologyLevel": required, "preferredTopologyLevel": preferred}
    return {"topology": name, **{side: each for side, each in sides.items() if each}}


CASES: dict[str, tuple[PodGang, Any]] = {
    "cliques are subgroups, and their least pods add up": (
        build_gang(("a", 2), ("b", 3), priority="high"),
        {
            "minMember": 5,
            "queue": "q",
            "priorityClassName": "high",
            "subGroups": [{"name": "a", "minMember": 2}, {"name": "b", "minMember": 3}],
        },
    ),
    "TAS3 whole gang": (
        build_gang(("a", 1), whole=pack_constraint("rack")),
        {
            "minMember": 1,
            "queue": "q",
            "topologyConstraint": build_level("rack"),
            "subGroups": [{"name": "a", "minMember": 1}],
        },
    ),
    "TAS8 tree of three levels": (
        build_gang(
            ("a", 1),
            ("g-0-x", 1, pack_constraint("host")),
            ("g-0-y", 2),
            together={"g-0": ["g-0-x", "g-0-y"]},
            at=pack_constraint("rack"),
            whole=pack_constraint("block"),
        ),
        {
            "minMember": 4,
            "queue": "q",
            "topologyConstraint": build_level("block"),
            "subGroups": [
                {"name": "g-0", "topologyConstraint": build_level("rack")},
                {"name": "a", "minMember": 1},
                {
                    "name": "g-0-x",
                    "minMember": 1,
                    "parent": "g-0",
                    "topologyConstraint": build_level("host"),
                },
                {"name": "g-0-y", "minMember": 2, "parent": "g-0"},
            ],
        },
    ),
    "TAS23 preferred level": (
        build_gang(("a", 1), whole=pack_constraint("block", "rack")),
        {
            "minMember": 1,
            "queue": "q",
            "topologyConstraint": build_level("block", "rack"),
            "subGroups": [{"name": "a", "minMember": 1}],
        },
    ),
    "clique scaled to zero has no subgroup": (
        build_gang(("g-0-x", 0), ("a", 1), together={"g-0": ["g-0-x"]}, at=pack_constraint("rack")),
        {"minMember": 1, "queue": "q", "subGroups": [{"name": "a", "minMember": 1}]},
    ),
    "gang without pods": (build_gang(("a", 0)), {"minMember": 1, "queue": "q"}),
}


@pytest.mark.parametrize("case", CASES)
def test_pod_group_mirrors_its_gang(case: str) -> None:
    of, wanted = CASES[case]
    assert build_spec(of) == wanted


def test_pod_group_has_name_metadata_and_owner_of_its_gang() -> None:
    of = build_gang(("a", 1))
    body = KaiBackend().build_pod_group(of, PodGroupContext(build_queued_set(KAI, "q"))).body
    assert body is not None
    own = body["metadata"]
    assert (own["name"], own["namespace"]) == ("sys-0", "default")
    assert own["labels"] == of.metadata.labels
    assert own["annotations"] == of.metadata.annotations
    (owner,) = own["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("PodGang", "uid-of-sys-0", True)


def test_topology_is_the_one_that_the_binding_refers_to() -> None:
    bound = topology(BINDING, rack="rack")
    elsewhere = (SchedulerTopology("volcano", "no"), SchedulerTopology(KAI, "theirs"))
    bound = type(bound)(
        bound.metadata, type(bound.spec)(bound.spec.levels, scheduler_topology_bindings=elsewhere)
    )
    around = PodGroupContext(build_queued_set(KAI, "q"), {BINDING: bound})
    found = build_spec(build_gang(("a", 1), whole=pack_constraint("rack")), around)
    assert found["topologyConstraint"] == build_level("rack", name="theirs")


@pytest.mark.parametrize(
    "queues", [("", ""), ("x", "y")], ids=["no queue is named", "two queues are named"]
)
def test_set_without_one_queue_gets_no_pod_group(queues: tuple[str, str]) -> None:
    cliques = [clique(f"c{i}", labels={QUEUE: q} if q else {}) for i, q in enumerate(queues)]
    mapped = KaiBackend().build_pod_group(
        build_gang(("a", 1)), PodGroupContext(pod_clique_set(*cliques))
    )
    assert mapped.body is None
    assert mapped.problem == (
        "PodCliqueSet sys names no queue or more than one: set the label kai.scheduler/queue"
    )


def test_fields_set_by_kai_are_kept() -> None:
    wanted = (
        KaiBackend()
        .build_pod_group(build_gang(("a", 1)), PodGroupContext(build_queued_set(KAI, "q")))
        .body
    )
    assert wanted is not None
    wanted["metadata"]["labels"] |= {QUEUE: "q", NODE_POOL: "ours"}
    live = to_stored_object(wanted, queue="moved", markUnschedulable=True)
    live.metadata.labels[NODE_POOL] = "theirs"
    live.metadata.labels.pop(QUEUE)
    kept = KaiBackend().drop_fields_of_others(wanted, live)
    assert "queue" not in kept["spec"]
    assert NODE_POOL not in kept["metadata"]["labels"]
    assert kept["metadata"]["labels"][QUEUE] == "q"
    assert kept["spec"]["minMember"] == 1
    live.spec["queue"] = ""
    assert KaiBackend().drop_fields_of_others(wanted, live)["spec"]["queue"] == "q"
