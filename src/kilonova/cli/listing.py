"""Lists of things in a cluster: what commands like `kilonova nodes` share."""

import asyncio
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from kilonova.cli import colours
from kilonova.cli.clusters import cluster_meant, namespace_meant
from kilonova.cli.failure import CommandFailed, WrongUsage
from kilonova.cli.lookoptions import Form
from kilonova.cli.printing import Printer
from kilonova.cli.reasons import explained
from kilonova.cli.sources import Source, listed, readable
from kilonova.cli.views import Tables
from kilonova.cli.watching import GONE, watch
from kilonova.kube import NotFound, connect

V = TypeVar("V", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class Column(Generic[V]):
    """A column: its title, what is in it, and by what it is sorted, if not by that."""

    title: str
    cell: Callable[[V], str]
    order: Callable[[V], float | str] | None = None
    wide: bool = False
    """Whether only the wide table has it."""
    in_wide: Callable[[V], str] | None = None
    """What is in it there, where there is more to say."""
    state: bool = False
    """Whether it says how a thing is, and is coloured by that."""


@dataclass(frozen=True, slots=True)
class Kind(Generic[V]):
    """Things of one kind: where they come from, and how they are shown."""

    what: str
    """One of them, in words."""
    sources: Callable[[str | None, str], tuple[Source, ...]]
    """By namespace (None is all) and selector. Of the first the cluster must know the kind."""
    views: Callable[[Tables], list[V]]
    columns: tuple[Column[V], ...]
    reference: Callable[[V], str]
    """`node/h100-0`: how other commands name it."""
    state: str = "status"
    """The field that says how it is."""
    namespace: Callable[[V], str] | None = None
    """Where it is, of things that are in namespaces."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The options as typed, of any list."""

    names: Sequence[str] = ()
    namespace: str | None = None
    everywhere: bool = False
    selector: str = ""
    sort_by: str = ""
    watch: bool = False
    headers: bool = True
    form: Form = "table"
    kubeconfig: Path | None = None
    context: str | None = None
    data: Path | None = None


def show(kind: Kind[V], asked: Asked) -> None:
    """Print things of a cluster as they were asked for."""
    meant = cluster_meant(asked.kubeconfig, asked.context, asked.data)
    if kind.namespace is not None and not asked.everywhere:
        asked = replace(asked, namespace=namespace_meant(asked.namespace, meant, asked.context))
    _require_selector(asked.selector)
    columns = _columns(kind, asked)
    printer = Printer(
        head=tuple(each.title for each in columns) if asked.headers else None,
        cells=lambda view: tuple(each.cell(view) for each in columns),
        states=frozenset(place for place, each in enumerate(columns) if each.state),
        reference=kind.reference,
        key=lambda view: (kind.namespace(view) if kind.namespace else "", kind.reference(view)),
        form=asked.form,
        coloured=colours.wanted(sys.stdout),
    )
    order = _order(kind, asked.sort_by)
    with explained("look", "; `kilonova doctor` says which rights there are to ask for"):
        asyncio.run(_show(kind, asked, meant, printer, order))


def _require_selector(selector: str) -> None:
    """Refuse here what no server understands."""
    if not selector:
        return
    from kilonova.local.errors import ApiError
    from kilonova.local.selectors.syntax import parse_label_selector

    try:
        parse_label_selector(selector)
    except ApiError as error:
        raise WrongUsage(f"--selector {selector!r}: {error.message}") from None


async def _show(
    kind: Kind[V],
    asked: Asked,
    kubeconfig: Path | None,
    printer: Printer[V],
    order: Callable[[V], tuple[float, str]] | None,
) -> None:
    everywhere = kind.namespace is None or asked.everywhere
    wanted = kind.sources(None if everywhere else asked.namespace, asked.selector)

    def chosen(tables: Tables, *, strict: bool) -> list[V]:
        views = _named(kind, asked, kind.views(tables), strict=strict)
        return sorted(views, key=order) if order else views

    async def chosen_again(tables: Tables) -> list[V]:
        return chosen(tables, strict=False)

    def gone(view: V) -> V:
        return msgspec.structs.replace(view, **{kind.state: GONE})

    async with connect(kubeconfig, asked.context) as client:
        with _known(kind):
            sources = await readable(client, wanted)
            first = chosen(await listed(client, sources), strict=True)
        if asked.watch:
            await watch(client, sources, chosen_again, printer, gone)
        else:
            printer.print(first, _nothing(kind, asked))


@contextmanager
def _known(kind: Kind[V]) -> Generator[None]:
    """Tells whoever looks for a kind that the cluster does not know what to do."""
    try:
        yield
    except NotFound as error:
        raise CommandFailed(f"the cluster knows no {kind.what}s: run `kilonova install`") from error


def _named(kind: Kind[V], asked: Asked, views: list[V], *, strict: bool) -> list[V]:
    """Those of the names that were given, all if none was; strict fails if one is not there."""
    if not asked.names:
        return views
    wanted = {name: [view for view in views if _goes_by(kind, view, name)] for name in asked.names}
    for name, found in wanted.items():
        if strict and not found:
            place = f" in namespace {asked.namespace}: see -n and -A" if asked.namespace else ""
            raise CommandFailed(f"there is no {kind.what} {name!r}{place}")
    return [view for view in views if any(view in found for found in wanted.values())]


def _goes_by(kind: Kind[V], view: V, name: str) -> bool:
    reference = kind.reference(view)
    return name in (reference, reference.partition("/")[2])


def _columns(kind: Kind[V], asked: Asked) -> tuple[Column[V], ...]:
    if asked.form == "wide":
        shown = tuple(replace(each, cell=each.in_wide or each.cell) for each in kind.columns)
    else:
        shown = tuple(each for each in kind.columns if not each.wide)
    if kind.namespace is None or not asked.everywhere:
        return shown
    return (Column("NAMESPACE", kind.namespace), *shown)


def _order(kind: Kind[V], wanted: str) -> Callable[[V], tuple[float, str]] | None:
    if not wanted:
        return None
    column = next((each for each in kind.columns if each.title == wanted.upper()), None)
    if column is None:
        titles = ", ".join(each.title.lower() for each in kind.columns)
        raise WrongUsage(f"there is no column {wanted!r} to sort by: take one of {titles}")
    key = column.order or column.cell

    def order(view: V) -> tuple[float, str]:
        value = key(view)
        return (0.0, value) if isinstance(value, str) else (-value, "")

    return order


def _nothing(kind: Kind[V], asked: Asked) -> str:
    """What is said where there is nothing to show."""
    where = f" in namespace {asked.namespace}" if asked.namespace else ""
    which = f" with {asked.selector}" if asked.selector else ""
    return f"There are no {kind.what}s{which}{where}."
