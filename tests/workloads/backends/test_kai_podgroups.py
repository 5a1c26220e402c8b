"""KAI's PodGroups: made from gangs, as a table of values."""

from typing import Any

import pytest

from kilonova.api.grove.topology import SchedulerTopology
from kilonova.api.podgang import PodGang
from kilonova.workloads.backends import KAI
from kilonova.workloads.backends.kai import NODE_POOL, Kai
from kilonova.workloads.backends.mapping import Surroundings
from kilonova.workloads.backends.queues import QUEUE_KEYS
from tests.workloads.backends.backend_values import BINDING, gang, set_in, stored, within
from tests.workloads.builders import clique, pod_clique_set, topology, without_nulls

QUEUE = QUEUE_KEYS[KAI]


def spec(of: PodGang, around: Surroundings | None = None) -> Any:
    body = Kai().pod_group(of, around or Surroundings(set_in(KAI, "q"))).body
    assert body is not None
    return without_nulls(body)["spec"]


def level(required: str = "", preferred: str = "", name: str = BINDING) -> Any:
    sides = {"requiredTopologyLevel": required, "preferredTopologyLevel": preferred}
    return {"topology": name, **{side: each for side, each in sides.items() if each}}


CASES: dict[str, tuple[PodGang, Any]] = {
    "cliques are subgroups, and their least pods add up": (
        gang(("a", 2), ("b", 3), priority="high"),
        {
            "minMember": 5,
            "queue": "q",
            "priorityClassName": "high",
            "subGroups": [{"name": "a", "minMember": 2}, {"name": "b", "minMember": 3}],
        },
    ),
    "TAS3 whole gang": (
        gang(("a", 1), whole=within("rack")),
        {
            "minMember": 1,
            "queue": "q",
            "topologyConstraint": level("rack"),
            "subGroups": [{"name": "a", "minMember": 1}],
        },
    ),
    "TAS8 tree of three levels": (
        gang(
            ("a", 1),
            ("g-0-x", 1, within("host")),
            ("g-0-y", 2),
            together={"g-0": ["g-0-x", "g-0-y"]},
            at=within("rack"),
            whole=within("block"),
        ),
        {
            "minMember": 4,
            "queue": "q",
            "topologyConstraint": level("block"),
            "subGroups": [
                {"name": "g-0", "topologyConstraint": level("rack")},
                {"name": "a", "minMember": 1},
                {
                    "name": "g-0-x",
                    "minMember": 1,
                    "parent": "g-0",
                    "topologyConstraint": level("host"),
                },
                {"name": "g-0-y", "minMember": 2, "parent": "g-0"},
            ],
        },
    ),
    "TAS23 preferred level": (
        gang(("a", 1), whole=within("block", "rack")),
        {
            "minMember": 1,
            "queue": "q",
            "topologyConstraint": level("block", "rack"),
            "subGroups": [{"name": "a", "minMember": 1}],
        },
    ),
    "clique scaled to zero has no subgroup": (
        gang(("g-0-x", 0), ("a", 1), together={"g-0": ["g-0-x"]}, at=within("rack")),
        {"minMember": 1, "queue": "q", "subGroups": [{"name": "a", "minMember": 1}]},
    ),
    "gang without pods": (gang(("a", 0)), {"minMember": 1, "queue": "q"}),
}


@pytest.mark.parametrize("case", CASES)
def test_pod_group_says_what_its_gang_says(case: str) -> None:
    of, wanted = CASES[case]
    assert spec(of) == wanted


def test_it_has_the_name_and_the_marks_of_its_gang_and_goes_with_it() -> None:
    of = gang(("a", 1))
    body = Kai().pod_group(of, Surroundings(set_in(KAI, "q"))).body
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
    around = Surroundings(set_in(KAI, "q"), {BINDING: bound})
    found = spec(gang(("a", 1), whole=within("rack")), around)
    assert found["topologyConstraint"] == level("rack", name="theirs")


@pytest.mark.parametrize(
    "queues", [("", ""), ("x", "y")], ids=["no queue is named", "two queues are named"]
)
def test_set_without_one_queue_gets_no_pod_group(queues: tuple[str, str]) -> None:
    cliques = [clique(f"c{i}", labels={QUEUE: q} if q else {}) for i, q in enumerate(queues)]
    mapped = Kai().pod_group(gang(("a", 1)), Surroundings(pod_clique_set(*cliques)))
    assert mapped.body is None
    assert mapped.problem == (
        "PodCliqueSet sys names no queue, or more than one: give it the label kai.scheduler/queue"
    )


def test_what_kai_has_decided_stays() -> None:
    wanted = Kai().pod_group(gang(("a", 1)), Surroundings(set_in(KAI, "q"))).body
    assert wanted is not None
    wanted["metadata"]["labels"] |= {QUEUE: "q", NODE_POOL: "ours"}
    live = stored(wanted, queue="moved", markUnschedulable=True)
    live.metadata.labels[NODE_POOL] = "theirs"
    live.metadata.labels.pop(QUEUE)
    kept = Kai().beside_others(wanted, live)
    assert "queue" not in kept["spec"]
    assert NODE_POOL not in kept["metadata"]["labels"]
    assert kept["metadata"]["labels"][QUEUE] == "q"
    assert kept["spec"]["minMember"] == 1
    live.spec["queue"] = ""
    assert Kai().beside_others(wanted, live)["spec"]["queue"] == "q"
