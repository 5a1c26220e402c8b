"""What plug-ins add to the picture."""

from importlib.metadata import EntryPoint

import pytest

from kilonova.instances.fit.annotations import GROUP, annotate_view
from kilonova.instances.fit.topology_view import TopologyView, view_topology
from tests.instances.clusters import node, snapshot_of


def power(view: TopologyView) -> dict[str, str]:
    return {view.nodes[0].name: "PDU 7\x1b[2J", "z/b/r": "12 kW"}


def owner(view: TopologyView) -> dict[str, str]:
    return {"z/b/r": "team vision"}


def broken(view: TopologyView) -> dict[str, str]:
    raise KeyError("rack")


def wrong(view: TopologyView) -> object:
    return {"z": 3}


def point(name: str) -> EntryPoint:
    return EntryPoint(name, f"{__name__}:{name}", GROUP)


@pytest.fixture
def view() -> TopologyView:
    return view_topology(snapshot_of(node("n", "z/b/r")))


def test_texts_of_plugins_are_joined(view: TopologyView):
    annotated = annotate_view(view, [point("power"), point("owner")])
    assert annotated.warnings == ()
    assert annotated.view.nodes[0].annotation == "PDU 7[2J"
    assert annotated.view.annotations == {"z/b/r": "team vision, 12 kW"}


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (f"{__name__}:broken", "KeyError('rack')"),
        (f"{__name__}:wrong", "want texts by node or domain"),
        (f"{__name__}:missing", "AttributeError"),
        ("no_such_package:x", "ModuleNotFoundError"),
    ],
)
def test_broken_plugin_is_named_and_left_out(view: TopologyView, value: str, problem: str):
    annotated = annotate_view(view, [EntryPoint("mine", value, GROUP), point("owner")])
    (warning,) = annotated.warnings
    assert warning.startswith(f"plug-in mine ({value}) of {GROUP} failed")
    assert problem in warning
    assert annotated.view.annotations == {"z/b/r": "team vision"}
