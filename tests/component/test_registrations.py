"""Kilonova's own registrations: whatever they name exists."""

from pathlib import Path

import pytest

from kilonova.api.crds import load_definitions
from kilonova.component import Component, find_components
from kilonova.component.definitions import load_component_definitions
from kilonova.component.references import load_reference
from tools.docs.component_pages import MAP, list_component_pages

ROOT = Path(__file__).parents[2]
COMPONENTS = find_components()


@pytest.mark.parametrize("component", COMPONENTS, ids=lambda each: each.name)
def test_references_of_a_component_can_be_loaded(component: Component) -> None:
    embedded, process = component.embedded, component.process
    references = [
        component.console,
        component.checks,
        component.definitions,
        *(each.reference for each in component.commands),
        *((embedded.build,) if embedded else ()),
        *((flag.parse for flag in embedded.flags) if embedded else ()),
        *((flag.complete for flag in embedded.flags) if embedded else ()),
        *((process.command, process.assemble) if process else ()),
    ]
    for each in filter(None, references):
        assert load_reference(each) is not None


@pytest.mark.parametrize("component", COMPONENTS, ids=lambda each: each.name)
def test_files_of_a_component_exist(component: Component) -> None:
    deploy = component.process.deploy if component.process else ""
    paths = [each.path for each in component.pages] + [*component.examples, deploy]
    assert [each for each in paths if each and not (ROOT / each).exists()] == []


def test_every_definition_is_needed_by_a_component() -> None:
    assert load_component_definitions(COMPONENTS) == load_definitions()


def test_map_of_the_documentation_has_the_pages_of_components() -> None:
    text = (ROOT / MAP).read_text()
    wanted = list_component_pages(text, COMPONENTS)
    assert text == wanted, "run python -m tools.docs.component_pages, or change the registration"


def test_every_deployed_process_is_registered() -> None:
    registered = {each.process.deploy for each in COMPONENTS if each.process}
    # Permissions that are added to those of a process; charts; rules and dashboards.
    additions = {
        "deploy/console-actions",
        "deploy/helm",
        "deploy/monitoring",
        "deploy/serving-releases",
    }
    folders = {f"deploy/{each.name}" for each in (ROOT / "deploy").iterdir() if each.is_dir()}
    assert folders - additions == registered
