"""Objects as a Table, the form that `kubectl get` requests."""

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.times import human_age
from kilonova.local.apiserver.kinds.columns import AGE, CREATED_AT, NAME
from kilonova.local.apiserver.kinds.kind import Kind, PrinterColumn
from kilonova.local.data import table as read_table

_META = "meta.k8s.io/v1"


def render_table(
    kind: Kind,
    objects: Sequence[JsonObject],
    *,
    include_object: str,
    now: datetime,
    list_meta: JsonObject,
) -> JsonObject:
    """A Table with a row for each object, given in the version of `kind`.

    `include_object` selects what each row has besides its cells: `Metadata` (of the object),
    `Object` (all of it) or `None`. Cost: one row of a pod takes about 10 µs.
    """
    strategy = kind.strategy
    columns = strategy.columns or (NAME, AGE)
    if strategy.columns:
        cells = [strategy.table_cells(obj, now) for obj in objects]
    else:
        cells = [[column.value(obj, now) for column in columns] for obj in objects]
    if kind.is_custom:
        dates = [index for index, column in enumerate(columns) if column.type == "date"]
        for row in cells:
            for index in dates:
                row[index] = _format_date(row[index], now)
    rows: list[JsonObject] = []
    for obj, row in zip(objects, cells, strict=True):
        made: JsonObject = {"cells": row, "object": _included_object(obj, include_object)}
        if conditions := strategy.row_conditions(obj):
            made["conditions"] = conditions
        rows.append(made)
    return {
        "kind": "Table",
        "apiVersion": _META,
        "metadata": list_meta,
        "columnDefinitions": [_column_definition(kind, column) for column in columns],
        # Kubernetes' text for an empty table of a kind without columns.
        "rows": rows or (None if CREATED_AT in columns else []),
    }


def partial_metadata(obj: JsonObject) -> JsonObject:
    """The PartialObjectMetadata of an object."""
    return {"kind": "PartialObjectMetadata", "apiVersion": _META, "metadata": obj["metadata"]}


def _included_object(obj: JsonObject, include_object: str) -> JsonObject | None:
    match include_object:
        case "None":
            return None
        case "Object":
            return obj
        case _:
            return partial_metadata(obj)


def _format_date(value: Any, now: datetime) -> Any:
    return None if value is None else human_age(str(value), now)


def _column_definition(kind: Kind, column: PrinterColumn) -> JsonObject:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description or _column_description(kind, column.name),
        "priority": column.priority,
    }


def _column_description(kind: Kind, column: str) -> str:
    texts = _column_descriptions()
    own = {} if kind.is_custom else texts.get(kind.kind, {})
    return own.get(column) or texts[""].get(column, "")


@cache
def _column_descriptions() -> dict[str, dict[str, str]]:
    """The description of each column, by kind; under the empty kind those of all objects."""
    return msgspec.json.decode(read_table("columns.json.gz"), type=dict[str, dict[str, str]])
