"""The CustomResourceDefinitions that components need."""

from collections.abc import Callable, Iterable, Sequence

from kilonova.api.crds import load_definitions
from kilonova.api.json import JsonObject
from kilonova.component.references import BrokenReference, load_reference
from kilonova.component.registration import Component
from kilonova.kube.observability.structured_logging import get_logger

_log = get_logger(__name__)


def load_component_definitions(components: Iterable[Component]) -> list[JsonObject]:
    """The definitions of all kinds that the components need, each once, sorted by name.

    `BrokenReference` if a registration names a kind without a definition.
    """

    def fail(component: Component, error: BrokenReference) -> None:
        raise error

    return _load(components, fail)


def load_available_definitions(components: Iterable[Component]) -> list[JsonObject]:
    """The same, without those of components whose definitions cannot be loaded."""

    def report(component: Component, error: BrokenReference) -> None:
        _log.error("definitions left out", component=component.name, error=str(error))

    return _load(components, report)


def _load(
    components: Iterable[Component], on_error: Callable[[Component, BrokenReference], None]
) -> list[JsonObject]:
    needing = [each for each in components if each.kinds]
    own = _by_name(load_definitions()) if needing else {}
    found: dict[str, JsonObject] = {}
    for each in needing:
        try:
            found |= _definitions_of(each, own)
        except BrokenReference as error:
            on_error(each, error)
    return [found[name] for name in sorted(found)]


def _definitions_of(component: Component, own: dict[str, JsonObject]) -> dict[str, JsonObject]:
    available = own
    if component.definitions:
        available = own | _by_name(load_reference(component.definitions)())
    missing = [name for name in component.kinds if name not in available]
    if missing:
        raise BrokenReference(
            f"component {component.name} needs {', '.join(missing)}, which its registration does "
            "not define: see `definitions`"
        )
    return {name: available[name] for name in component.kinds}


def _by_name(definitions: Sequence[JsonObject]) -> dict[str, JsonObject]:
    return {str(each["metadata"]["name"]): each for each in definitions}
