"""Which components run: a table of flags and outcomes."""

import pytest

from kilonova.cli.up.components.selection import (
    ComponentFlags,
    parse_component_names,
    select_components,
)
from kilonova.component import Component, EmbeddedPart, Flag, ProcessPart
from kilonova.component.failure import WrongUsage


def component(name: str, part: EmbeddedPart | None) -> Component:
    process = ProcessPart(name=name, assemble="a.module:assemble")
    return Component(name=name, summary="It.", embedded=part, process=process)


COMPONENTS = (
    component("api", EmbeddedPart(required=True)),
    component("store", EmbeddedPart(help="Run the store.")),
    component("proxy", EmbeddedPart(help="Run the proxy.", requires=("store",))),
    component(
        "page",
        EmbeddedPart(
            help="Serve the page.",
            requires=("proxy",),
            flags=(
                Flag(name="page-host", type="text", help="Address.", default="127.0.0.1"),
                Flag(name="open", help="Open it."),
            ),
        ),
    ),
    component("agent", None),
    component(
        "extra",
        EmbeddedPart(
            help="Run it.", by_default=False, flags=(Flag(name="extra-name", type="text", help=""),)
        ),
    ),
)

CASES = {
    "all by default": (ComponentFlags(), "api store proxy page"),
    "only one": (ComponentFlags(only="store"), "api store"),
    "only one with all that it requires": (ComponentFlags(only="page"), "api store proxy page"),
    "only what is always there": (ComponentFlags(only="api"), "api"),
    "one that does not run by default": (
        ComponentFlags(switches={"extra": True}, values={"extra-name": "x"}),
        "api store proxy page extra",
    ),
    "only one that does not run by default": (
        ComponentFlags(only="extra", switches={"extra": False}),
        "api extra",
    ),
    "without some": (ComponentFlags(without="page, proxy"), "api store"),
    "a switch": (ComponentFlags(switches={"page": False, "store": True}), "api store proxy"),
    "only, less a switch": (
        ComponentFlags(only="proxy,page", switches={"page": False}),
        "api store proxy",
    ),
    "flag of a disabled component": (
        ComponentFlags(switches={"page": False}, values={"page-host": "::1"}),
        "api store proxy",
    ),
    "default value of a component that is left out": (
        ComponentFlags(only="store", values={"page-host": "127.0.0.1", "open": False}),
        "api store",
    ),
}


@pytest.mark.parametrize(("flags", "selected"), CASES.values(), ids=CASES)
def test_selection(flags: ComponentFlags, selected: str) -> None:
    assert " ".join(select_components(COMPONENTS, flags)) == selected


ERRORS = {
    "unknown name": (
        ComponentFlags(only="stor"),
        "--only stor: there is no such component: choose from api, store, proxy, page, extra",
    ),
    "no name": (
        ComponentFlags(without=" , "),
        "--without names no component: choose from api, store, proxy, page, extra",
    ),
    "required by every cluster": (
        ComponentFlags(without="api"),
        "--without api: every cluster has it; leave it out of the list",
    ),
    "both": (
        ComponentFlags(only="store,proxy", without="store"),
        "--only and --without both name store: remove it from one",
    ),
    "process only": (
        ComponentFlags(only="agent"),
        "--only agent: it does not run in `kilonova up`: start it with `kilonova run agent`",
    ),
    "required by another": (
        ComponentFlags(without="store", switches={"page": False}),
        "proxy requires store, which is left out: leave out proxy too "
        "(--without page,proxy,store), or keep store",
    ),
    "flag of a component that is left out": (
        ComponentFlags(only="store", values={"open": True}),
        "--open is for page, which --only leaves out: remove --open, or select page",
    ),
    "flag of one that does not run by default": (
        ComponentFlags(values={"extra-name": "x"}),
        "--extra-name is for extra, which does not run: add --extra",
    ),
}


@pytest.mark.parametrize(("flags", "message"), ERRORS.values(), ids=ERRORS)
def test_invalid_selections_say_what_is_valid(flags: ComponentFlags, message: str) -> None:
    with pytest.raises(WrongUsage) as failure:
        select_components(COMPONENTS, flags)
    assert str(failure.value) == message


def test_names_are_separated_by_commas() -> None:
    assert parse_component_names("--components", " page,agent ,", COMPONENTS) == ("page", "agent")
