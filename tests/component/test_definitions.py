"""CRDs of components: those that they need, and what happens if they are not there."""

import pytest

from kilonova.component import Component, find_components
from kilonova.component.definitions import load_available_definitions, load_component_definitions
from kilonova.component.references import BrokenReference

QUEUES = "queues.scheduling.kilonova.dev"
SCHEDULER = next(each for each in find_components() if each.name == "scheduler")
GREETER = Component(
    name="greeter",
    summary="Greets.",
    kinds=("greetings.toy.example.com", QUEUES),
    definitions="tests.component.toy.kind:load_definitions",
)


def names_of(definitions: list[dict[str, dict[str, str]]]) -> list[str]:
    return [each["metadata"]["name"] for each in definitions]


def test_definitions_that_several_components_need_are_loaded_once() -> None:
    found = names_of(load_component_definitions([SCHEDULER, GREETER]))
    assert found == sorted({*SCHEDULER.kinds, *GREETER.kinds})


@pytest.mark.parametrize(
    ("definitions", "message"),
    [
        ("", "component broken needs widgets.example.com, which its registration does not define"),
        ("no_such_module:load", "no_such_module:load cannot be loaded"),
    ],
)
def test_definitions_that_cannot_be_loaded_are_left_out_of_a_cluster(
    definitions: str, message: str
) -> None:
    kinds = ("widgets.example.com",)
    broken = Component(name="broken", summary="It.", kinds=kinds, definitions=definitions)
    with pytest.raises(BrokenReference, match=message):
        load_component_definitions([broken, GREETER])
    assert names_of(load_available_definitions([broken, GREETER])) == sorted(GREETER.kinds)
