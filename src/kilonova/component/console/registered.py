"""The console contributions of all registered components."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from kilonova.component.console.contribution import ConsoleContribution, InvalidContribution
from kilonova.component.references import BrokenReference, load_reference
from kilonova.component.registry import find_components
from kilonova.kube.observability.structured_logging import get_logger

T = TypeVar("T")

_log = get_logger(__name__)


def build_with_contributions(build: Callable[[Sequence[ConsoleContribution]], T]) -> T:
    """What `build` makes of the contributions of all components.

    A contribution that cannot be loaded, or that `build` rejects, is left out: the console also
    serves the others.
    """
    contributions = _load_contributions()
    while True:
        try:
            return build(contributions)
        except InvalidContribution as error:
            valid = [each for each in contributions if each.component != error.component]
            if len(valid) == len(contributions):
                raise
            _report(error.component, error)
            contributions = valid


def _load_contributions() -> list[ConsoleContribution]:
    found: list[ConsoleContribution] = []
    for each in find_components():
        if each.console:
            try:
                found.append(load_reference(each.console))
            except BrokenReference as error:
                _report(each.name, error)
    return found


def _report(component: str, error: Exception) -> None:
    _log.error("console contribution left out", component=component, error=str(error))
