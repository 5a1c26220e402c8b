"""Registrations are found without a list, and conflicts between them are named."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from kilonova.component import Command, Component, EmbeddedPart, Flag, ProcessPart, find_components
from kilonova.component.references import BrokenReference, load_reference
from kilonova.component.registry import (
    MODULES_VARIABLE,
    InvalidRegistration,
    check_registrations,
)


@pytest.fixture
def module_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder whose modules can be imported."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def write_registration(folder: Path, module: str, name: str) -> None:
    text = f"""
        from kilonova.component import Component

        COMPONENTS = (Component(name="{name}", summary="Makes widgets."),)
    """
    (folder / f"{module}.py").write_text(dedent(text))


def test_named_modules_register_components(
    module_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_registration(module_folder, "widgets_component", "widgets")
    write_registration(module_folder, "gears_component", "gears")
    own = find_components()
    monkeypatch.setenv(MODULES_VARIABLE, "widgets_component, gears_component")
    added = [each.name for each in find_components() if each not in own]
    assert added == ["gears", "widgets"]
    assert set(own) < set(find_components())


@pytest.mark.parametrize(
    ("modules", "message"),
    [
        ("no_such_module", r"KILONOVA_COMPONENTS names no_such_module, which cannot be imported"),
        ("empty_component", r"empty_component registers nothing: it needs COMPONENTS"),
        ("bad_name", r"names bad_name, which cannot be imported: component 'My Part': want lower"),
        (
            "widgets_component,widgets_again",
            r"component widgets is registered by both widgets_component and widgets_again: rename",
        ),
    ],
)
def test_invalid_registrations_are_named(
    module_folder: Path, monkeypatch: pytest.MonkeyPatch, modules: str, message: str
) -> None:
    write_registration(module_folder, "widgets_component", "widgets")
    write_registration(module_folder, "widgets_again", "widgets")
    write_registration(module_folder, "bad_name", "My Part")
    (module_folder / "empty_component.py").write_text("")
    monkeypatch.setenv(MODULES_VARIABLE, modules)
    with pytest.raises(InvalidRegistration, match=message):
        find_components()


def test_two_components_cannot_share_a_command_or_a_flag() -> None:
    def component(name: str, command: str, flag: str) -> Component:
        part = EmbeddedPart(help="Run it.", flags=(Flag(name=flag, help="A flag."),))
        commands = (Command(command, "some.module:run"),)
        return Component(name=name, summary="It.", embedded=part, commands=commands)

    first = component("first", "list", "fast")
    with pytest.raises(InvalidRegistration, match="command list is registered by both a and b"):
        check_registrations([(first, "a"), (component("other", "list", "slow"), "b")])
    with pytest.raises(InvalidRegistration, match="flag fast is registered by both a and b"):
        check_registrations([(first, "a"), (component("other", "show", "fast"), "b")])


def test_a_required_component_must_exist() -> None:
    part = EmbeddedPart(help="Run it.", requires=("motor",))
    with pytest.raises(
        InvalidRegistration, match="a: component car requires motor, which does not exist"
    ):
        check_registrations([(Component(name="car", summary="It.", embedded=part), "a")])


def test_the_process_of_a_component_must_exist() -> None:
    part = ProcessPart(name="operator", assemble="some.module:assemble")
    widgets = Component(name="widgets", summary="It.", process=part)
    message = "a: component widgets belongs to process operator, which no component of that name"
    with pytest.raises(InvalidRegistration, match=message):
        check_registrations([(widgets, "a")])
    owner = Component(name="operator", summary="It.", process=part)
    check_registrations([(widgets, "a"), (owner, "b")])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Component(name="My Part", summary=""), "component 'My Part': want lower-case"),
        (lambda: Command("list", "some.module"), "'some.module' is not a reference: want package"),
        (lambda: ProcessPart(name="car"), "process car has no `assemble`, `command` or `webhooks`"),
    ],
)
def test_invalid_values_are_rejected(build: object, message: str) -> None:
    assert callable(build)
    with pytest.raises(ValueError, match=message):
        build()


def test_status_key_is_the_name_in_camel_case() -> None:
    assert Component(name="process-node", summary="").status_key == "processNode"


def test_a_reference_is_loaded_or_says_why_not() -> None:
    assert load_reference("kilonova.component.references:load_reference") is load_reference
    with pytest.raises(BrokenReference, match=r"kilonova\.none:x cannot be loaded: No module"):
        load_reference("kilonova.none:x")
    with pytest.raises(BrokenReference, match="references:nothing cannot be loaded"):
        load_reference("kilonova.component.references:nothing")


def test_reading_registrations_imports_no_package_of_a_component() -> None:
    program = (
        "import sys; from kilonova.component import find_components; find_components()\n"
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True
    )
    loaded = done.stdout.split()
    assert not {"msgspec", "asyncio", "typer"} & set(loaded)
    others = [
        each for each in loaded if each.startswith("kilonova.") and "kilonova.component" not in each
    ]
    assert all(each.endswith(".component") for each in others), others
