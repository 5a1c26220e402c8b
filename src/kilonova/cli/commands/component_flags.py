"""Flags of `kilonova up` that come from the registrations of components."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from typing import Annotated, Any

import typer

from kilonova.cli.commands.name_completion import complete_component_list
from kilonova.cli.up.components.selection import ComponentFlags, embeddable_components
from kilonova.component import Component, Flag, FlagValue, find_components
from kilonova.component.references import load_reference


def expand_component_flags(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose parameter of type `ComponentFlags` is replaced by the flags themselves.

    Other functions are returned unchanged. To be called when a command is built: registrations are
    read then.
    """
    signature = inspect.signature(function)
    name = next(
        (each for each, it in signature.parameters.items() if it.annotation is ComponentFlags), None
    )
    if name is None:
        return function
    components = embeddable_components(find_components())
    added = [*_selection_parameters(components), *_component_parameters(components)]

    @wraps(function)
    def call(**values: Any) -> Any:
        typed = {each.name: values.pop(each.name) for each in added}
        return function(**values, **{name: _collect_flags(components, typed)})

    parameters: list[inspect.Parameter] = []
    for each in signature.parameters.values():
        parameters += added if each.name == name else [each]
    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
    setattr(call, "__signature__", signature.replace(parameters=parameters))  # noqa: B010 (no attribute of a function type)
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    return call


def _selection_parameters(components: list[Component]) -> Iterator[inspect.Parameter]:
    def complete(incomplete: str) -> list[str]:
        return complete_component_list(incomplete, (each.name for each in components))

    optional = [each.name for each in components if each.embedded and not each.embedded.required]
    only = f"Run only these of {', '.join(optional)}, and what they require; separated by commas."
    without = "Leave out these components, separated by commas."
    for name, text in (("only", only), ("without", without)):
        option = typer.Option(f"--{name}", metavar="NAMES", help=text, autocompletion=complete)
        yield _parameter(name, str | None, option, None)


def _component_parameters(components: list[Component]) -> Iterator[inspect.Parameter]:
    for component in components:
        part = component.embedded
        assert part is not None
        if part.help:
            option = typer.Option(f"--{component.name}/--no-{component.name}", help=part.help)
            yield _parameter(_identifier(component.name), bool, option, part.by_default)
        for flag in part.flags:
            yield _flag_parameter(flag)


def _flag_parameter(flag: Flag) -> inspect.Parameter:
    low, high = flag.limits or (None, None)

    def complete(incomplete: str) -> list[str]:
        return load_reference(flag.complete)(incomplete)

    option = typer.Option(
        f"--{flag.name}",
        metavar=flag.metavar or None,
        help=flag.help,
        min=low,
        max=high,
        autocompletion=complete if flag.complete else None,
    )
    types: dict[str, Any] = {
        "switch": bool,
        "number": int | None,
        "text": str | None,
        "texts": list[str] | None,
    }
    default = bool(flag.default) if flag.type == "switch" else flag.default
    return _parameter(_identifier(flag.name), types[flag.type], option, default)


def _parameter(name: str, type: Any, option: Any, default: FlagValue) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[type, option]
    )


def _collect_flags(components: list[Component], typed: Mapping[str, Any]) -> ComponentFlags:
    switches = {
        each.name: bool(typed[_identifier(each.name)])
        for each in components
        if each.embedded and each.embedded.help
    }
    flags = [flag for each in components if each.embedded for flag in each.embedded.flags]
    values = {each.name: _parse_value(each, typed[_identifier(each.name)]) for each in flags}
    return ComponentFlags(typed["only"], typed["without"], switches, values)


def _parse_value(flag: Flag, typed: Any) -> FlagValue:
    parse: Callable[[str], str] = load_reference(flag.parse) if flag.parse else str
    if flag.type == "texts":
        return tuple(parse(each) for each in typed or ())
    return parse(typed) if isinstance(typed, str) else typed


def _identifier(name: str) -> str:
    return name.replace("-", "_")
