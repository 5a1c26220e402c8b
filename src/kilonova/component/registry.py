"""Finds the registrations of all components.

A package of Kilonova registers components by a file `component.py`, found by a scan of one folder;
the package itself is not imported. Components outside of Kilonova are modules that
`KILONOVA_COMPONENTS` names, separated by commas.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from typing import cast

from kilonova.component.registration import Component

MODULES_VARIABLE = "KILONOVA_COMPONENTS"
"""Modules with registrations of components that are not part of Kilonova."""
_PACKAGE = "kilonova"
_FILE = "component.py"


class InvalidRegistration(Exception):
    """A registration that cannot be used: the message names it, and how to fix it."""


def find_components() -> tuple[Component, ...]:
    """All registered components, in their order."""
    return _find_components(os.environ.get(MODULES_VARIABLE, ""))


@cache
def _find_components(modules: str) -> tuple[Component, ...]:
    found = [
        (each, module.__name__)
        for module in (*_own_registrations(), *_named_registrations(modules))
        for each in _components_of(module)
    ]
    check_registrations(found)
    return tuple(sorted((each for each, _ in found), key=lambda each: (each.order, each.name)))


def check_registrations(found: Sequence[tuple[Component, str]]) -> None:
    """`InvalidRegistration` if components, with the modules that register them, conflict."""
    modules: dict[str, str] = {}
    for component, module in found:
        for what in _claimed_names(component):
            if what in modules:
                raise InvalidRegistration(
                    f"{what} is registered by both {modules[what]} and {module}: rename one"
                )
            modules[what] = module
    processes = {each.name for each, _ in found if each.process and each.process.name == each.name}
    for component, module in found:
        for name in component.embedded.requires if component.embedded else ():
            if f"component {name}" not in modules:
                raise InvalidRegistration(
                    f"{module}: component {component.name} requires {name}, which does not exist"
                )
        if component.process is not None and component.process.name not in processes:
            raise InvalidRegistration(
                f"{module}: component {component.name} belongs to process "
                f"{component.process.name}, which no component of that name has"
            )


def _claimed_names(component: Component) -> Iterator[str]:
    """Everything that no other component may register."""
    yield f"component {component.name}"
    yield from (f"command {each.name}" for each in component.commands)
    if component.embedded is not None:
        if component.embedded.help:
            yield f"flag {component.name}"
        yield from (f"flag {each.name}" for each in component.embedded.flags)


def _own_registrations() -> Iterator[ModuleType]:
    """The registrations of Kilonova's packages, without importing the packages."""
    root = os.path.dirname(os.path.dirname(__file__))
    for name in sorted(os.listdir(root)):
        file = os.path.join(root, name, _FILE)
        if os.path.isfile(file):
            yield _load_file(f"{_PACKAGE}.{name}.component", file)


def _load_file(name: str, file: str) -> ModuleType:
    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _named_registrations(modules: str) -> Iterator[ModuleType]:
    for name in filter(None, (each.strip() for each in modules.split(","))):
        try:
            yield import_module(name)
        except (ImportError, TypeError, ValueError) as error:
            raise InvalidRegistration(
                f"{MODULES_VARIABLE} names {name}, which cannot be imported: {error}"
            ) from error


def _components_of(module: ModuleType) -> tuple[Component, ...]:
    components: object = getattr(module, "COMPONENTS", None)
    if not isinstance(components, tuple):
        raise InvalidRegistration(
            f"{module.__name__} registers nothing: it needs COMPONENTS, a tuple of Component"
        )
    return cast("tuple[Component, ...]", components)
