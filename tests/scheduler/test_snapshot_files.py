"""Snapshot files: what is read is what was written, and decides the same anywhere."""

import gzip
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.core.forest import forest_of
from kilonova.scheduler.core.history import History
from kilonova.scheduler.core.plan import Planner, Policy
from kilonova.scheduler.core.scores import default_scoring
from kilonova.scheduler.decisions import replay
from kilonova.scheduler.files import UnreadableFile, load, read, save, written
from kilonova.scheduler.picture import Picture, picture_of
from tests.scheduler.core import random_clusters as random
from tests.scheduler.pictures import HERE, example

POLICY = Policy(random.LEVELS, reserve_after=100.0)


@st.composite
def pictures(draw: st.DrawFn) -> Picture:
    """A cluster in which some gangs stand and others wait."""
    cluster = Cluster()
    for index in draw(st.permutations(range(4))):
        cluster.snapshot.put_node(draw(random.nodes(f"n{index}")))
    if draw(st.booleans()):
        cluster.snapshot.remove_node("n2")
    specs = draw(random.queues())
    cluster.replace_queues(forest_of(specs))
    cluster.budgets = {name: draw(st.integers(0, 2)) for name in random.BUDGETS}
    planner = Planner(cluster, default_scoring(), POLICY)
    planner.decide([draw(random.gangs(f"old{index}")) for index in range(3)], 10.0)
    cluster.history = History(100.0, 10.0).advanced(cluster.used, draw(st.floats(10.0, 500.0)))
    waiting = [draw(random.gangs(f"new{index}", float(index))) for index in range(3)]
    return picture_of(cluster, waiting, specs, POLICY, 500.0)


@settings(max_examples=60, deadline=None)
@given(pictures())
def test_what_was_written_is_read_and_decides_the_same(picture: Picture) -> None:
    text = written(picture)
    again = read(text, HERE)
    assert again == picture
    assert written(again) == text
    assert replay(again) == replay(picture)


@settings(max_examples=30, deadline=None)
@given(pictures())
def test_a_cluster_made_from_a_picture_looks_the_same_in_another(picture: Picture) -> None:
    cluster = picture.cluster()
    another = picture_of(cluster, picture.waiting, picture.queues, picture.policy, picture.now)
    assert another == picture


def test_every_process_decides_the_same_whatever_its_hashes(tmp_path: Path) -> None:
    path = tmp_path / "it.json.gz"
    save(example(), path)
    program = (
        "import sys, msgspec; from pathlib import Path;"
        "from kilonova.scheduler.files import load, written;"
        "from kilonova.scheduler.decisions import replay;"
        "p = load(Path(sys.argv[1]));"
        "sys.stdout.buffer.write(written(p) + msgspec.json.encode(replay(p)))"
    )
    told = [
        subprocess.run(
            [sys.executable, "-c", program, path],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert told[0] == told[1]
    assert told[0] == written(example()) + msgspec.json.encode(replay(example()))


@pytest.mark.parametrize("name", ["it.json", "it.json.gz"])
def test_a_file_holds_a_picture_packed_or_not(tmp_path: Path, name: str) -> None:
    save(example(), tmp_path / name)
    assert load(tmp_path / name) == example()
    packed = (tmp_path / name).read_bytes().startswith(b"\x1f\x8b")
    assert packed == name.endswith(".gz")
    assert [each.name for each in tmp_path.iterdir()] == [name]


def _changed(change: str) -> bytes:
    whole: Any = json.loads(written(example()))
    match change:
        case "foreign":
            whole["kind"] = "List"
        case "newer":
            whole["version"] = 99
        case "older":
            whole["version"] = 0
        case "type":
            whole["nodes"][1]["allocatable"]["cpu"] = "many"
        case "field":
            del whole["nodes"][0]["name"]
        case "part":
            del whole["bookings"]
        case "number":
            whole["nodes"][0]["#layout"] = 7
        case "layout":
            whole["layouts"][0]["links"] = [[0, 5, 300]]
        case "row":
            whole["bookings"][0]["row"] = 2
        case "twins":
            whole["nodes"][1]["name"] = "a"
        case "share":
            whole["bookings"][1]["devices"][0]["milli"] = 1 << 20
        case "device":
            whole["bookings"][0]["devices"][0]["index"] = 4
        case _:
            whole["bookings"] = []
    return json.dumps(whole).encode()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "is no JSON"),
        (b'{"kind": ', "is no JSON"),
        (b"\xff\xfe", "is no JSON"),
        (b"[" * 100_000, "is no JSON"),
        (b"[]", "is no snapshot: there is no object in it"),
        (b"{}", "is no snapshot: its kind is not 'kilonova-snapshot'"),
        (gzip.compress(written(example()))[:-20], "is damaged: it can not be unpacked"),
        (_changed("foreign"), "is no snapshot"),
        (_changed("newer"), "is of version 99, and this is kilonova for 1: read it with a newer"),
        (_changed("older"), "is of version 0, and this is kilonova for 1: save it anew"),
        (_changed("type"), "$.nodes[1].allocatable"),
        (_changed("field"), "missing required field `name` - at `$.nodes[0]`"),
        (_changed("part"), "missing required field `bookings`"),
        (_changed("number"), "there is no layout of number 7, but 1 of them"),
        (_changed("layout"), "link 0-5: not two devices"),
        (_changed("row"), "ns/slice is on node 2 of 2"),
        (_changed("twins"), "a is there twice among nodes"),
        (_changed("device"), "ns/slice has device 4, which is not there"),
        (_changed("share"), "ns/stands has more of device 0 than there is"),
        (_changed("bookings"), "ns/slice of gang ns/slice stands and is not booked"),
    ],
)
def test_a_damaged_file_is_refused_and_the_place_is_named(text: bytes, said: str) -> None:
    with pytest.raises(UnreadableFile) as caught:
        read(text, HERE)
    assert said in str(caught.value)
    assert str(caught.value).startswith("here: ")


def test_a_part_of_the_score_that_is_not_known_here_is_named() -> None:
    picture = replace(example(), weights={"topology": 1.0, "taste": 2.0})
    with pytest.raises(ValueError, match="not known here: taste"):
        replay(picture)
