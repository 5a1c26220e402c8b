"""What is decided about the models of a group, from what is known of its servers."""

import json
from typing import Any

import msgspec
import pytest

from kilonova.api.serving import ModelPlacement, names
from kilonova.serving.models.changes import Change
from kilonova.serving.models.desire import GroupPlan, ObservedServer, plan_group
from kilonova.serving.models.usage import ModelUsage

LOAD_CAT = Change("a", "Load", "cat")
UNLOAD_CAT = Change("a", "Unload", "cat")


def plan(
    *servers: ObservedServer,
    models: tuple[dict[str, Any], ...] = ({"name": "cat", "memory": "6Gi"},),
    memory: str | None = "10Gi",
    requested: tuple[str, ...] = (),
) -> GroupPlan:
    body = {"models": models, **({"serverMemory": memory} if memory else {})}
    declared = msgspec.convert(body, ModelPlacement)
    return plan_group(declared, servers, frozenset(requested), now=100.0)


def server(name: str = "a", index: dict[str, str] | None = None, **fields: Any) -> ObservedServer:
    return ObservedServer(name, index or {}, **fields)


def read(found: GroupPlan, name: str = "a") -> tuple[list[str], dict[str, str]]:
    """Loaded models, and states with their messages."""
    annotations = found.annotations[name]
    states = json.loads(annotations[names.MODEL_STATES])
    texts = {
        model: f"{each['state']}{': ' if 'message' in each else ''}{each.get('message', '')}"
        for model, each in states.items()
    }
    return json.loads(annotations[names.LOADED_MODELS]), texts


@pytest.mark.parametrize(
    ("observed", "changes", "loaded", "states"),
    [
        pytest.param(server(), [LOAD_CAT], [], {"cat": "Loading"}, id="what is missing is loaded"),
        pytest.param(
            server(index={"cat": "READY", "own": "READY", "other": "UNAVAILABLE"}),
            [],
            ["cat", "own"],
            {"cat": "Loaded"},
            id="what is loaded is published, also if it is not managed",
        ),
        pytest.param(
            server(index={"cat": "LOADING"}, change=LOAD_CAT),
            [],
            [],
            {"cat": "Loading"},
            id="a load goes on",
        ),
        pytest.param(
            server(index={"cat": "LOADING"}),
            [],
            [],
            {"cat": "Loading"},
            id="one that a former leader began is waited for",
        ),
        pytest.param(
            server(index={"cat": "READY"}, change=UNLOAD_CAT),
            [],
            [],
            {"cat": "Unloading"},
            id="what is to be unloaded gets no requests",
        ),
        pytest.param(
            server(index={"cat": "READY", "dog": "READY"}, was_managed=frozenset({"dog"})),
            [Change("a", "Unload", "dog")],
            ["cat"],
            {"cat": "Loaded", "dog": "Unloading"},
            id="what was managed and is declared no longer is unloaded",
        ),
        pytest.param(
            server(failures={"cat": "no such file"}, resting=frozenset({"cat"})),
            [],
            [],
            {"cat": "Failed: no such file"},
            id="what failed rests",
        ),
        pytest.param(
            server(failures={"cat": "no such file"}),
            [LOAD_CAT],
            [],
            {"cat": "Loading"},
            id="and is tried again",
        ),
        pytest.param(
            server(index={"cat": "READY"}, is_away=True),
            [],
            ["cat"],
            {"cat": "Loaded"},
            id="a server that does not answer keeps what it had",
        ),
        pytest.param(
            server(is_away=True), [], [], {}, id="one that ended has nothing, and is not told to"
        ),
    ],
)
def test_plan_of_one_server(
    observed: ObservedServer, changes: Any, loaded: Any, states: Any
) -> None:
    found = plan(observed)
    assert found.changes == changes
    assert read(found) == (loaded, states)


def test_model_without_space_says_so() -> None:
    models = ({"name": "cat", "memory": "6Gi"}, {"name": "dog", "memory": "6Gi"})
    found = plan(server(index={"cat": "READY"}), models=models)
    assert found.changes == []
    expected = "Waiting: 0 of 1 copies: no server has 6Gi of its 10Gi free for it"
    assert read(found)[1] == {"cat": "Loaded", "dog": expected}


def test_model_on_demand_waits_for_requests() -> None:
    models = ({"name": "cat", "memory": "6Gi", "minCopies": 0},)
    assert plan(server(), models=models).changes == []
    assert plan(server(), models=models, requested=("cat",)).changes == [LOAD_CAT]


def test_idle_model_on_demand_gives_way() -> None:
    models = (
        {"name": "cat", "memory": "6Gi", "minCopies": 0},
        {"name": "dog", "memory": "6Gi", "minCopies": 0},
    )
    for last_used, changes in ((95.0, []), (80.0, [UNLOAD_CAT])):
        observed = server(index={"cat": "READY"}, usage={"cat": ModelUsage(last_used=last_used)})
        assert plan(observed, models=models, requested=("dog",)).changes == changes


def test_load_of_all_servers_counts() -> None:
    busy = {"cat": ModelUsage(load=0.8)}
    servers = (
        server("a", {"cat": "READY"}, usage=busy),
        server("b", {"cat": "READY"}, usage=busy),
        server("c"),
    )
    assert plan(*servers).changes == []
    more = {"cat": ModelUsage(load=1.2)}
    servers = (servers[0], server("b", {"cat": "READY"}, usage={**more}), servers[2])
    assert plan(*servers).changes == []
    servers = (server("a", {"cat": "READY"}, usage=more), servers[1], servers[2])
    assert plan(*servers).changes == [Change("c", "Load", "cat")]
