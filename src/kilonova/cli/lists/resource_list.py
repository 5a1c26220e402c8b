"""Listing objects of a cluster: shared by `kilonova nodes`, `gangs` and `workloads`."""

import asyncio
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from kilonova.cli.lists.table_sources import TableSource, filter_readable, list_tables
from kilonova.cli.lists.views import Tables
from kilonova.cli.lists.watch import DELETED, watch_list
from kilonova.component.cluster_errors import translate_cluster_errors
from kilonova.component.command.cluster_selection import resolve_kubeconfig, resolve_namespace
from kilonova.component.command.output import colours
from kilonova.component.command.output.format_names import ListFormat
from kilonova.component.command.output.list_printer import ListPrinter
from kilonova.component.failure import CommandFailed, WrongUsage
from kilonova.kube import NotFound, connect

V = TypeVar("V", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class ListColumn(Generic[V]):
    """A column: title, cell, and the sort key if it is not the cell."""

    title: str
    cell: Callable[[V], str]
    sort_key: Callable[[V], float | str] | None = None
    wide_only: bool = False
    """Whether the column is only in the wide table."""
    wide_cell: Callable[[V], str] | None = None
    """The cell of the wide table, if it differs."""
    is_state: bool = False
    """Whether the cell is a state, which has a colour."""


@dataclass(frozen=True, slots=True)
class ListDefinition(Generic[V]):
    """A list of one kind of objects: its sources, views and columns."""

    noun: str
    """The singular, as in messages."""
    sources: Callable[[str | None, str], tuple[TableSource, ...]]
    """Sources for a namespace (None is all) and a selector. The cluster must serve the first."""
    views: Callable[[Tables], list[V]]
    columns: tuple[ListColumn[V], ...]
    reference: Callable[[V], str]
    """`node/h100-0`: the name that other commands accept."""
    state_field: str = "status"
    """The field of the view that has the state."""
    namespace: Callable[[V], str] | None = None
    """The namespace of a view; None if the kind is not namespaced."""


@dataclass(frozen=True, slots=True)
class ListFlags:
    """The flags of a list command."""

    names: Sequence[str] = ()
    namespace: str | None = None
    all_namespaces: bool = False
    selector: str = ""
    sort_by: str = ""
    watch: bool = False
    headers: bool = True
    output_format: ListFormat = "table"
    kubeconfig: Path | None = None
    context: str | None = None
    data: Path | None = None


def show_list(definition: ListDefinition[V], options: ListFlags) -> None:
    """List or watch objects of a cluster and print them."""
    kubeconfig = resolve_kubeconfig(options.kubeconfig, options.context, options.data)
    if definition.namespace is not None and not options.all_namespaces:
        options = replace(
            options, namespace=resolve_namespace(options.namespace, kubeconfig, options.context)
        )
    _validate_selector(options.selector)
    columns = _select_columns(definition, options)
    printer = ListPrinter(
        header=tuple(each.title for each in columns) if options.headers else None,
        cells=lambda view: tuple(each.cell(view) for each in columns),
        state_columns=frozenset(index for index, each in enumerate(columns) if each.is_state),
        reference=definition.reference,
        key=lambda view: (
            definition.namespace(view) if definition.namespace else "",
            definition.reference(view),
        ),
        output_format=options.output_format,
        coloured=colours.should_use_colour(sys.stdout),
    )
    order = _build_sort_key(definition, options.sort_by)
    with translate_cluster_errors("read from", "; `kilonova doctor` lists missing permissions"):
        asyncio.run(_list_and_print(definition, options, kubeconfig, printer, order))


def _validate_selector(selector: str) -> None:
    """Reject an invalid selector before any request."""
    if not selector:
        return
    from kilonova.local.apimachinery.errors import ApiError
    from kilonova.local.apimachinery.selectors.syntax import parse_label_selector

    try:
        parse_label_selector(selector)
    except ApiError as error:
        raise WrongUsage(f"--selector {selector!r}: {error.message}") from None


async def _list_and_print(
    definition: ListDefinition[V],
    options: ListFlags,
    kubeconfig: Path | None,
    printer: ListPrinter[V],
    order: Callable[[V], tuple[float, str]] | None,
) -> None:
    everywhere = definition.namespace is None or options.all_namespaces
    wanted = definition.sources(None if everywhere else options.namespace, options.selector)

    def select_views(tables: Tables, *, strict: bool) -> list[V]:
        views = _filter_by_name(definition, options, definition.views(tables), strict=strict)
        return sorted(views, key=order) if order else views

    async def select_current_views(tables: Tables) -> list[V]:
        return select_views(tables, strict=False)

    def mark_deleted(view: V) -> V:
        return msgspec.structs.replace(view, **{definition.state_field: DELETED})

    async with connect(kubeconfig, options.context) as client:
        with _explain_unknown_kind(definition):
            sources = await filter_readable(client, wanted)
            first = select_views(await list_tables(client, sources), strict=True)
        if options.watch:
            await watch_list(client, sources, select_current_views, printer, mark_deleted)
        else:
            printer.print(first, _empty_message(definition, options))


@contextmanager
def _explain_unknown_kind(definition: ListDefinition[V]) -> Generator[None]:
    """Suggest `kilonova install` if the cluster does not serve the kind."""
    try:
        yield
    except NotFound as error:
        raise CommandFailed(
            f"the cluster does not serve {definition.noun}s: run `kilonova install`"
        ) from error


def _filter_by_name(
    definition: ListDefinition[V], options: ListFlags, views: list[V], *, strict: bool
) -> list[V]:
    """Views with one of the given names, all if none is given; strict fails if one is missing."""
    if not options.names:
        return views
    by_name = {
        name: [view for view in views if _has_name(definition, view, name)]
        for name in options.names
    }
    for name, found in by_name.items():
        if strict and not found:
            where = f" in namespace {options.namespace}: see -n and -A" if options.namespace else ""
            raise CommandFailed(f"there is no {definition.noun} {name!r}{where}")
    return [view for view in views if any(view in found for found in by_name.values())]


def _has_name(definition: ListDefinition[V], view: V, name: str) -> bool:
    reference = definition.reference(view)
    return name in (reference, reference.partition("/")[2])


def _select_columns(definition: ListDefinition[V], options: ListFlags) -> tuple[ListColumn[V], ...]:
    if options.output_format == "wide":
        columns = tuple(
            replace(each, cell=each.wide_cell or each.cell) for each in definition.columns
        )
    else:
        columns = tuple(each for each in definition.columns if not each.wide_only)
    if definition.namespace is None or not options.all_namespaces:
        return columns
    return (ListColumn("NAMESPACE", definition.namespace), *columns)


def _build_sort_key(
    definition: ListDefinition[V], column_name: str
) -> Callable[[V], tuple[float, str]] | None:
    if not column_name:
        return None
    column = next((each for each in definition.columns if each.title == column_name.upper()), None)
    if column is None:
        titles = ", ".join(each.title.lower() for each in definition.columns)
        raise WrongUsage(f"there is no column {column_name!r} to sort by: use one of {titles}")
    key = column.sort_key or column.cell

    def sort_key(view: V) -> tuple[float, str]:
        value = key(view)
        return (0.0, value) if isinstance(value, str) else (-value, "")

    return sort_key


def _empty_message(definition: ListDefinition[V], options: ListFlags) -> str:
    where = f" in namespace {options.namespace}" if options.namespace else ""
    selected = f" with {options.selector}" if options.selector else ""
    return f"There are no {definition.noun}s{selected}{where}."
