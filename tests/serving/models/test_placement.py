"""Which server has which models: tables, and what always holds."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.serving.models.changes import Change, ServerState, choose_changes
from kilonova.serving.models.model import PlacedModel, Placement
from kilonova.serving.models.placement import place_models


def model(name: str, memory: int = 0, **fields: Any) -> PlacedModel:
    return PlacedModel(name, memory, **fields)


def place(models: list[PlacedModel], servers: dict[str, str], memory: int | None) -> dict[str, str]:
    """The placement; models have one letter."""
    present = {server: frozenset(names) for server, names in servers.items()}
    found = place_models(models, present, memory)
    return {server: "".join(sorted(names)) for server, names in found.servers.items()}


ON_DEMAND: Any = {"min_copies": 0}


@pytest.mark.parametrize(
    ("models", "servers", "memory", "expected"),
    [
        pytest.param(
            [model("a", 5), model("b", 5)],
            {"1": "", "2": ""},
            10,
            {"1": "a", "2": "b"},
            id="models are spread",
        ),
        pytest.param(
            [model("a", 6), model("b", 6), model("c", 4), model("d", 4)],
            {"1": "", "2": ""},
            10,
            {"1": "ac", "2": "bd"},
            id="large ones first",
        ),
        pytest.param(
            [model("a", min_copies=2), model("b", max_copies=1)],
            {"1": "", "2": "", "3": ""},
            None,
            {"1": "ab", "2": "a", "3": "a"},
            id="without memory every server has every model",
        ),
        pytest.param(
            [model("a", 5, min_copies=2)],
            {"1": "", "2": "a", "3": ""},
            10,
            {"1": "a", "2": "a", "3": ""},
            id="a copy stays where it is",
        ),
        pytest.param(
            [model("a", 5), model("b", 5)],
            {"1": "ax", "2": ""},
            10,
            {"1": "a", "2": "b"},
            id="what is not declared goes",
        ),
        pytest.param(
            [model("a", 5), model("b", 5, **ON_DEMAND)],
            {"1": ""},
            10,
            {"1": "a"},
            id="on demand is not loaded unasked",
        ),
        pytest.param(
            [model("a", 5), model("b", 5, is_requested=True, **ON_DEMAND)],
            {"1": "a"},
            10,
            {"1": "ab"},
            id="on demand is loaded when requests wait",
        ),
        pytest.param(
            [
                model("a", 5),
                model("b", 5, idle_seconds=60, **ON_DEMAND),
                model("c", 5, idle_seconds=90, **ON_DEMAND),
                model("d", 5, is_requested=True, **ON_DEMAND),
            ],
            {"1": "ab", "2": "c"},
            10,
            {"1": "ab", "2": "cd"},
            id="free memory is used first",
        ),
        pytest.param(
            [
                model("a", 5),
                model("b", 5, idle_seconds=60, **ON_DEMAND),
                model("c", 10, idle_seconds=90, **ON_DEMAND),
                model("d", 5, is_requested=True, **ON_DEMAND),
            ],
            {"1": "ab", "2": "c"},
            10,
            {"1": "ab", "2": "d"},
            id="least recently used gives way",
        ),
        pytest.param(
            [
                model("b", 10, idle_seconds=1, **ON_DEMAND),
                model("d", 10, is_requested=True, idle_seconds=0, **ON_DEMAND),
            ],
            {"1": "b"},
            10,
            {"1": "b"},
            id="what is in use does not give way to another on demand",
        ),
        pytest.param(
            [model("b", 10, idle_seconds=1, **ON_DEMAND), model("a", 10)],
            {"1": "b"},
            10,
            {"1": "a"},
            id="it does to a minimum",
        ),
        pytest.param(
            [model("a", 5, load=2.5), model("b", 5, load=0.5)],
            {"1": "a", "2": "b", "3": ""},
            10,
            {"1": "a", "2": "ab", "3": "a"},
            id="hot models get more copies",
        ),
        pytest.param(
            [model("a", 5, load=2.5, max_copies=2), model("b", 5)],
            {"1": "a", "2": "b", "3": ""},
            10,
            {"1": "a", "2": "b", "3": "a"},
            id="up to their maximum",
        ),
        pytest.param(
            [model("a", 10, load=3), model("b", 10)],
            {"1": "a", "2": "b", "3": "b"},
            10,
            {"1": "a", "2": "b", "3": "a"},
            id="a copy that is not needed gives way to a hot one",
        ),
        pytest.param(
            [model("a", 5), model("b", 5)],
            {"1": "ab", "2": "ab"},
            10,
            {"1": "ab", "2": "ab"},
            id="further copies stay as long as there is memory",
        ),
        pytest.param(
            [model("a", 5), model("b", 5)],
            {"1": "ab"},
            5,
            {"1": "a"},
            id="a server that is too full gets emptier",
        ),
        pytest.param(
            [model("a", 4), model("b", 4), model("c", 6), model("d", 6)],
            {"1": "ab", "2": "c"},
            10,
            {"1": "ad", "2": "bc"},
            id="packed anew where nothing else helps",
        ),
        pytest.param([model("a", 5)], {}, 10, {}, id="no server"),
    ],
)
def test_placement(
    models: list[PlacedModel], servers: dict[str, str], memory: int | None, expected: Any
) -> None:
    assert place(models, servers, memory) == expected


@pytest.mark.parametrize(
    ("given_model", "problem"),
    [
        (model("a", 20), "0 of 1 copies: it needs 20, and a server has 10"),
        (model("a", 5, min_copies=3), "2 of 3 copies: there are 2 servers"),
        (
            model("a", 5, min_copies=2, max_copies=1),
            "1 of 2 copies: maxCopies is 1",
        ),
        (model("a", 8), "0 of 1 copies: no server has 8 of its 10 free for it"),
    ],
)
def test_problem_says_what_is_missing(given_model: PlacedModel, problem: str) -> None:
    others = [model("b", 9), model("c", 9)] if given_model.memory == 8 else []
    found = place_models([given_model, *others], {"1": frozenset(), "2": frozenset()}, 10)
    assert found.problems == {"a": problem}


def test_problem_shows_memory_as_it_is_declared() -> None:
    found = place_models([model("a", 20 << 30)], {"1": frozenset()}, 16 << 30)
    assert found.problems == {"a": "0 of 1 copies: it needs 20Gi, and a server has 16Gi"}


def test_many_models_are_placed_soon() -> None:
    models = [model(f"m{number}", 1 + number % 7, min_copies=2) for number in range(300)]
    servers = {f"s{number}": frozenset[str]() for number in range(40)}
    found = place_models(models, servers, 80)
    assert not found.problems
    assert place_models(models, found.servers, 80) == found


_NAMES = "abcdefgh"
_MODELS = st.lists(
    st.builds(
        PlacedModel,
        st.sampled_from(_NAMES),
        st.integers(0, 12),
        st.integers(0, 3),
        st.none() | st.integers(1, 4),
        st.sampled_from([0.0, 0.5, 1.5, 4.0]),
        st.sampled_from([0.0, 5.0, 60.0, math.inf]),
        st.booleans(),
    ),
    max_size=8,
    unique_by=lambda each: each.name,
)
_SERVERS = st.dictionaries(
    st.sampled_from("12345"), st.frozensets(st.sampled_from(_NAMES)), max_size=5
)
_MEMORY = st.none() | st.integers(0, 24)


@given(_MODELS, _SERVERS, _MEMORY)
def test_memory_is_never_exceeded(
    models: list[PlacedModel], servers: dict[str, frozenset[str]], memory: int | None
) -> None:
    known = {each.name: each for each in models}
    found = place_models(models, servers, memory)
    assert found.servers.keys() == servers.keys()
    for names in found.servers.values():
        assert names <= known.keys()
        assert memory is None or sum(known[each].memory for each in names) <= memory
    for each in models:
        copies = sum(each.name in names for names in found.servers.values())
        assert each.max_copies is None or copies <= each.max_copies


@given(_MODELS, _SERVERS, _MEMORY)
def test_nothing_moves_when_nothing_changes(
    models: list[PlacedModel], servers: dict[str, frozenset[str]], memory: int | None
) -> None:
    found = place_models(models, servers, memory)
    assert place_models(models, found.servers, memory) == found


def pack_greedily(models: list[PlacedModel], servers: list[str], memory: int) -> bool:
    """Whether all minima fit, the largest first, each on the first servers with space."""
    free = dict.fromkeys(servers, memory)
    for each in sorted(models, key=lambda each: (-each.memory, each.name)):
        wanted = min(each.min_copies, len(servers))
        wanted = wanted if each.max_copies is None else min(wanted, each.max_copies)
        fitting = [server for server in servers if free[server] >= each.memory][:wanted]
        if len(fitting) < wanted:
            return False
        for server in fitting:
            free[server] -= each.memory
    return True


@given(_MODELS, _SERVERS, st.integers(0, 24))
def test_every_minimum_is_placed_if_it_can_be_packed(
    models: list[PlacedModel], servers: dict[str, frozenset[str]], memory: int
) -> None:
    found = place_models(models, servers, memory)
    if not pack_greedily(models, sorted(servers), memory):
        return
    for each in models:
        limit = len(servers) if each.max_copies is None else min(each.max_copies, len(servers))
        copies = sum(each.name in names for names in found.servers.values())
        assert copies >= min(each.min_copies, limit)


@given(_MODELS, _SERVERS, _MEMORY, st.randoms(use_true_random=False))
def test_steps_lead_to_the_placement_within_memory(
    models: list[PlacedModel],
    servers: dict[str, frozenset[str]],
    memory: int | None,
    random: Any,
) -> None:
    """Servers that begin without too much never have too much, whatever takes how long; no model
    is without a copy between, unless its memory is needed; all ends as placed."""
    known = {each.name: each for each in models}
    states = {server: set[str]() for server in servers}
    for server, names in servers.items():
        for name in sorted(names & known.keys()):
            if (
                memory is None
                or sum(known[each].memory for each in (*states[server], name)) <= memory
            ):
                states[server].add(name)
    placement = place_models(models, {s: frozenset(n) for s, n in states.items()}, memory)
    running: dict[str, Change] = {}
    for _ in range(300):
        observed = [
            ServerState(
                server, frozenset(names), running[server].model if server in running else ""
            )
            for server, names in states.items()
        ]
        for change in choose_changes(placement, observed, known, memory):
            assert change.server not in running
            running[change.server] = change
            if change.action == "Load":
                states[change.server].add(change.model)
        for names in states.values():
            assert memory is None or sum(known[each].memory for each in names) <= memory
        if not running:
            break
        done = running.pop(random.choice(sorted(running)))
        if done.action == "Unload":
            states[done.server].remove(done.model)
    assert {server: frozenset(names) for server, names in states.items()} == placement.servers


def changes_of(
    target: dict[str, str], states: list[ServerState], models: list[PlacedModel], memory: int = 10
) -> list[tuple[str, str, str]]:
    placement = Placement({server: frozenset(names) for server, names in target.items()})
    known = {each.name: each for each in models}
    found = choose_changes(placement, states, known, memory)
    return [(each.server, each.action, each.model) for each in found]


def state(name: str, loaded: str = "", **fields: Any) -> ServerState:
    return ServerState(name, frozenset(loaded), **fields)


A, B, C = model("a", 6), model("b", 6), model("c", 4)


@pytest.mark.parametrize(
    ("target", "states", "expected"),
    [
        pytest.param({"1": "ac"}, [state("1")], [("1", "Load", "a")], id="one at a time"),
        pytest.param({"1": "ac"}, [state("1", "a", busy_with="a")], [], id="a busy server waits"),
        pytest.param(
            {"1": "b", "2": "a"},
            [state("1", "a"), state("2")],
            [("2", "Load", "a")],
            id="another copy is loaded before the last one goes",
        ),
        pytest.param(
            {"1": "b", "2": "a"},
            [state("1", "a"), state("2", "a", busy_with="a")],
            [],
            id="until it is loaded",
        ),
        pytest.param(
            {"1": "b", "2": "a"},
            [state("1", "a"), state("2", "a")],
            [("1", "Unload", "a")],
            id="then it goes",
        ),
        pytest.param(
            {"1": "b", "2": "a"},
            [state("1", "a"), state("2", "b")],
            [("1", "Unload", "a")],
            id="two that exchange their models: one begins",
        ),
        pytest.param(
            {"1": "b", "2": "a"},
            [state("1", "a"), state("2", resting=frozenset("a"))],
            [("1", "Unload", "a")],
            id="memory that is needed is given, even if the other copy fails",
        ),
        pytest.param(
            {"1": "", "2": "a"},
            [state("1", "a"), state("2", resting=frozenset("a"))],
            [],
            id="else a copy stays while the other one fails to load",
        ),
        pytest.param(
            {"1": "", "2": "", "3": "a"},
            [state("1", "a"), state("2", "a"), state("3", busy_with="c", loaded="c")],
            [("1", "Unload", "a")],
            id="of two that go, one stays",
        ),
        pytest.param({"1": "c"}, [state("1", "cx")], [("1", "Unload", "x")], id="unknown goes"),
        pytest.param(
            {"1": "ac"},
            [state("1", resting=frozenset("a"))],
            [("1", "Load", "c")],
            id="others go on while one fails",
        ),
    ],
)
def test_next_steps(target: Any, states: list[ServerState], expected: Any) -> None:
    assert changes_of(target, states, [A, B, C]) == expected
