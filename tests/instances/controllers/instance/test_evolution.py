"""The next record of an allocation."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from kilonova.instances.controllers.instance.evolution import Evolution, evolve, get_repair_start
from kilonova.instances.controllers.instance.record import (
    AllocationRecord,
    encode_record,
    read_record,
)
from kilonova.instances.repair import CONDUCTOR, MemberHealth, MemberState, RepairDecision
from kilonova.instances.resources import Pod
from tests.instances.controllers.instance.objects import allocation, node, nodes, pod

NOW = datetime(2026, 5, 1, 0, 10, tzinfo=UTC)
STAMP = "2026-05-01T00:10:00Z"
LEVELS = ("zone", "rack")
RECORD = AllocationRecord(agents=3, level="rack")
NODES = nodes(
    node("n0", labels={"zone": "a", "rack": "r0"}),
    node("n1", labels={"zone": "a", "rack": "r0"}),
    node("n2", labels={"zone": "a", "rack": "r1"}),
    node("nc", labels={"zone": "b"}),
)


def members(**health: MemberHealth) -> list[MemberState]:
    """Three agents and a conductor, which are ready: a0, a1, a2, c."""
    found: list[MemberState] = []
    for index, name in ((0, "a0"), (1, "a1"), (2, "a2"), (CONDUCTOR, "c")):
        each = health.get(name, "Ready")
        bound = "" if each in ("Pending", "Missing") else f"n{'c' if name == 'c' else index}"
        found.append(MemberState(index, each, bound, "" if each == "Ready" else f"{name} is lost"))
    return found


def step(
    decision: RepairDecision,
    *pods: Pod,
    record: AllocationRecord = RECORD,
    observed: Sequence[MemberState] | None = None,
    **health: MemberHealth,
) -> Evolution:
    states = members(**health) if observed is None else observed
    known = allocation(record, *pods)
    return evolve(known, states, decision, "llama", NODES, LEVELS, set(LEVELS), NOW)


def test_nothing_changes_without_a_decision() -> None:
    assert step(RepairDecision()).record == RECORD


def test_replaced_members_get_new_pods_and_are_counted() -> None:
    found = step(RepairDecision((1, CONDUCTOR)), a1="NodeLost", c="NodeLost")
    assert found.record == AllocationRecord(
        agents=3,
        level="rack",
        generation=1,
        members={1: 1, CONDUCTOR: 1},
        avoided_nodes=("n1", "nc"),
        recreated=1,
        started=STAMP,
        reason="c is lost, and 1 more cause",
    )
    assert (found.recreated, found.moved) == (1, 1)
    assert list(found.record.list_pods("llama")) == [
        (0, 0, "llama-agent-0"),
        (1, 1, "llama-agent-1-r1"),
        (2, 0, "llama-agent-2"),
        (CONDUCTOR, 1, "llama-conductor-r1"),
    ]


def test_failed_pods_may_return_to_their_node() -> None:
    found = step(RepairDecision((0,)), a0="Failed")
    assert (found.record.avoided_nodes, found.moved) == ((), 0)


def test_repair_in_progress_keeps_its_start() -> None:
    started = replace(RECORD, started="2026-05-01T00:01:00Z", avoided_nodes=("n9",))
    found = step(RepairDecision((1,)), record=started, a0="Pending", a1="NodeLost")
    assert found.record.started == "2026-05-01T00:01:00Z"
    assert found.record.avoided_nodes == ("n1", "n9")
    # When all others have a node again, another repair begins.
    found = step(RepairDecision((1,)), record=started, a1="NodeLost")
    assert (found.record.started, found.record.avoided_nodes) == (STAMP, ("n1",))


def test_migrated_agent_has_two_pods_until_the_second_has_a_node() -> None:
    begun = step(RepairDecision(migrate=(0,)), a0="NodeDraining")
    assert begun.record.replacements == {0: 1}
    assert (begun.recreated, begun.record.started) == (0, STAMP)
    names = [name for _, _, name in begun.record.list_pods("llama")]
    assert names[0] == "llama-agent-0"
    assert names[-1] == "llama-agent-0-r1"

    second = "llama-agent-0-r1"
    waiting = step(RepairDecision(), pod(second, node=""), record=begun.record, a0="NodeDraining")
    assert waiting.record == begun.record
    bound = step(RepairDecision(), pod(second), record=begun.record, a0="NodeDraining")
    assert (bound.record.members, bound.record.replacements) == ({0: 1}, {})
    assert (bound.recreated, bound.moved) == (1, 1)


def test_replacement_takes_over_when_the_agent_is_lost() -> None:
    begun = replace(RECORD, generation=1, replacements={0: 1})
    waiting = pod("llama-agent-0-r1", node="")
    found = step(RepairDecision((0,)), waiting, record=begun, a0="NodeLost")
    assert (found.record.members, found.record.generation) == ({0: 1}, 1)
    assert found.recreated == 1


def test_replacement_is_dropped_when_its_node_is_not_drained_any_more() -> None:
    begun = replace(RECORD, generation=1, replacements={0: 1})
    waiting = pod("llama-agent-0-r1", node="")
    found = step(RepairDecision(), waiting, record=begun)
    assert (found.record.members, found.record.replacements) == ({}, {})
    assert found.recreated == 0


def test_replacement_that_failed_is_dropped() -> None:
    begun = replace(RECORD, generation=1, replacements={0: 1})
    failed = pod("llama-agent-0-r1", node="n1", phase="Failed")
    found = step(RepairDecision(), failed, record=begun, a0="NodeDraining")
    assert (found.record.members, found.record.replacements) == ({}, {})


def test_agents_stay_in_the_smallest_domain_that_has_them() -> None:
    fresh = replace(RECORD, level="")
    assert step(RepairDecision(), record=fresh).record.level == "zone"
    together = [replace_node(each, "n0") for each in members()]
    assert step(RepairDecision(), record=fresh, observed=together).record.level == "rack"
    pending = members(a1="Pending")
    assert step(RepairDecision(), record=fresh, observed=pending).record.level == ""


def test_wholly_lost_instance_may_go_anywhere() -> None:
    lost: Any = {"a0": "NodeLost", "a1": "Missing", "a2": "NodeLost", "c": "Missing"}
    found = step(RepairDecision((0, 1, 2, CONDUCTOR)), **lost)
    assert (found.record.level, found.recreated) == ("", 3)


def test_number_of_agents_may_change() -> None:
    wide = replace(RECORD, agents=5, members={4: 2, 1: 1}, replacements={3: 2})
    found = step(RepairDecision(), record=wide)
    assert (found.record.agents, found.record.members) == (3, {1: 1})
    assert found.record.replacements == {}
    assert found.record.reason == "the number of agents was changed from 5 to 3"


def test_record_is_read_as_it_was_written() -> None:
    record = replace(RECORD, members={1: 2, CONDUCTOR: 3}, replacements={0: 4}, reason="ä")
    gang = allocation(record).gang
    annotations = {"supernova.groq.io/allocation-record": encode_record(record)}
    gang.metadata = replace(gang.metadata, annotations=annotations)
    assert read_record(gang) == record


def test_repair_starts_with_the_record_or_with_the_allocation() -> None:
    started = replace(RECORD, started="2026-05-01T00:01:00Z")
    assert get_repair_start(allocation(started)).minute == 1
    assert get_repair_start(allocation(started, allocated=False)).minute == 0
    assert get_repair_start(allocation(RECORD)).minute == 0


def replace_node(member: MemberState, name: str) -> MemberState:
    return MemberState(member.index, member.health, name, member.reason)
