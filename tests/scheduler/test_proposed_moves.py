"""What would be moved, said without moving it."""

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kilonova.cli.commands import app
from kilonova.cli.schedulerconfig import parse_scheduler_configuration
from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.core.gangs import Gang, Member, single
from kilonova.scheduler.core.plan import Policy
from kilonova.scheduler.core.snapshot import Booking
from kilonova.scheduler.files import save
from kilonova.scheduler.movelimits import MoveLimits
from kilonova.scheduler.picture import Picture, picture_of
from kilonova.scheduler.proposing import proposed_moves
from tests.scheduler.core.clusters import node, shape

HEAD = "apiVersion: scheduler.config.kilonova.dev/v1alpha1\nkind: SchedulerConfiguration\n"


def picture(*waiting: Gang, returns: bool = True) -> Picture:
    """Two nodes of eight GPUs; pods with four stand on each."""
    cluster = Cluster()
    for name in ("n0", "n1"):
        row = cluster.snapshot.put_node(node(name))
        one = single(Member(f"ns/on-{name}", shape(4), returns=returns))
        booking = Booking(one.groups[0].members[0], row, (), one.name)
        cluster.snapshot.book(booking)
        cluster.stand(replace(one, groups=(_standing(one, name),)), [booking], 0.0)
    return picture_of(cluster, waiting, [], Policy(), 3600.0)


def _standing(one: Gang, node: str):
    [group] = one.groups
    return replace(group, members=(), standing=group.members, placed=(node,))


def test_a_node_would_become_empty() -> None:
    found = proposed_moves(picture())
    [moved] = found.pods
    assert {moved.leaves, moved.goes} == {"n0", "n1"}
    assert (found.emptied, found.makes_room_for) == ((moved.leaves,), "")
    assert found.lost_work == 4 * (3600 + 300)


def test_a_gang_that_waits_would_get_room() -> None:
    found = proposed_moves(picture(single(Member("ns/big", shape(8)))))
    assert (len(found.pods), found.makes_room_for) == (1, "ns/big")


def test_nobody_would_move_who_does_not_come_back_or_costs_too_much() -> None:
    assert proposed_moves(picture(returns=False)).pods == ()
    assert proposed_moves(picture(), MoveLimits(lost_work=3600.0)).pods == ()


def test_the_command_says_it_and_needs_one_thing_to_plan(tmp_path: Path) -> None:
    file, rules = tmp_path / "now.json", tmp_path / "rules.yaml"
    save(picture(), file)
    rules.write_text(f"{HEAD}moves: {{lostGpuTime: 1h}}\n")
    run = CliRunner().invoke
    done = run(app, ["plan", "--moves", "--snapshot", str(file)])
    assert "MOVED POD" in done.stdout
    assert "Work that would be lost: 4.3 GPU hours." in done.stdout
    done = run(app, ["plan", "--moves", "--snapshot", str(file), "--config", str(rules)])
    assert done.stdout == "Nothing would be moved.\n"
    assert "give manifests" in str(run(app, ["plan"]).exception)


def test_what_may_be_moved_is_read() -> None:
    text = f"{HEAD}moves: {{every: 5m, atOnce: 1, perHour: 3, arrivalsEach: 100}}\n"
    read = parse_scheduler_configuration(text.encode()).settings().moves
    assert read == MoveLimits(every=300.0, at_once=1, per_hour=3, arrivals_each=100)


@pytest.mark.parametrize(
    ("moves", "message"),
    [
        ("{atOnce: 0}", "moves.atOnce: 0 must be 1 or more; to move nothing, leave out `moves`"),
        ("{every: soon}", "moves.every: 'soon' is no duration: write it as 30s or 1m30s"),
        ("{often: 1}", "unknown field `often`"),
    ],
)
def test_what_cannot_be_is_refused(moves: str, message: str) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        parse_scheduler_configuration(f"{HEAD}moves: {moves}\n".encode())
    assert message in str(refused.value)
