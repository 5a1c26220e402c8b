"""Descriptions of pages: data that the server sends to the page, which renders it.

Fields of rows have their names on the wire, in camel case. `name`, `namespace` and `kind` are also
fields of every row, taken from its id, unless the row has fields of these names.
"""

from typing import Literal, TypeAlias

import msgspec

Tone = Literal["good", "busy", "wait", "warn", "bad", "idle"]
"""Severity of a state: healthy, progressing, waiting, degraded, failed, inactive."""

Format = Literal[
    "text",
    "code",
    "state",
    "flag",
    "number",
    "bytes",
    "percent",
    "meter",
    "money",
    "age",
    "duration",
    "time",
    "list",
    "url",
]
"""How a value is shown. `percent` and `meter` are shares from 0 to 1, `duration` is in seconds,
`age` and `time` are seconds since the epoch, `flag` is a boolean, `list` an array of texts, `url`
the address of a page elsewhere."""


class DescriptionStruct(msgspec.Struct, frozen=True, rename="camel"):
    """A part of a description."""


class _Tagged(DescriptionStruct, frozen=True, tag_field="type"):
    """A part that is one of several types."""


class Column(DescriptionStruct, frozen=True, kw_only=True):
    """A field of a row, as a column of a table or as a fact in the details."""

    field: str
    title: str
    format: Format = "text"
    tones: dict[str, Tone] = {}
    """Of a state: the tone of each value; `idle` for others."""
    link: str = ""
    """The table of the object that the value is the id of; `object` for `Kind/namespace/name`."""
    filter: bool = False
    """Whether the page has a filter with the values of this column."""
    width: str = ""
    """`80px`, `20%`; columns without one share the rest."""
    shown: Literal["always", "wide", "full"] = "always"
    """`wide`: not on a phone; `full`: only where the table has its full width."""


class ChartLine(DescriptionStruct, frozen=True):
    """One line of a chart."""

    series: str
    title: str
    dashed: bool = False
    """For limits and totals that other lines are compared with; never stacked."""


class TimeChart(_Tagged, frozen=True, tag="time"):
    """Series over time. In the details of an object the series have its id as key, elsewhere ""."""

    title: str
    lines: tuple[ChartLine, ...] = ()
    style: Literal["line", "area", "stacked"] = "line"
    format: Format = "number"
    by_key: str = ""
    """A series that has a line for each of its keys, titled by the key: those with the greatest
    values. They come before `lines`."""


class Histogram(_Tagged, frozen=True, tag="histogram"):
    """How many rows of a table have which values of a field."""

    title: str
    table: str
    field: str
    format: Format = "number"
    buckets: int = 10


Chart: TypeAlias = TimeChart | Histogram


class Fields(_Tagged, frozen=True, tag="fields"):
    """Facts about the object: names and values."""

    fields: tuple[Column, ...]
    title: str = ""
    table: str = ""
    """Another table, whose row of the same id has the fields."""


class Conditions(_Tagged, frozen=True, tag="conditions"):
    """The conditions of the object: a field with a list of `type`, `status`, `reason`, `message`
    and `since`."""

    field: str = "conditions"
    title: str = "Conditions"


class Events(_Tagged, frozen=True, tag="events"):
    """The newest events of the object."""

    title: str = "Events"


class Related(_Tagged, frozen=True, tag="related"):
    """Rows of another table that refer to the object."""

    title: str
    table: str
    by: str
    """The field of the other table that refers to the object."""
    columns: tuple[Column, ...]
    equals: str = "id"
    """The field of this object's row that it is compared with; `object` for
    `Kind/namespace/name`."""


class Entries(_Tagged, frozen=True, tag="entries"):
    """A table of the records in a field of the row, such as the clusters of a deployment."""

    title: str
    field: str
    columns: tuple[Column, ...]


class Charts(_Tagged, frozen=True, tag="charts"):
    """Charts of the object's series."""

    charts: tuple[TimeChart, ...]
    title: str = "Over time"


class LiveObject(_Tagged, frozen=True, tag="object"):
    """The object as YAML, fetched when it is opened."""

    title: str = "Live object"


Section: TypeAlias = Fields | Conditions | Events | Related | Entries | Charts | LiveObject
"""A section of an object's details."""


class Page(DescriptionStruct, frozen=True, kw_only=True):
    """A page of the console.

    With a `table` it lists the rows, and the address below it (`/widgets/default/w1`) opens the
    details of one. Without, `frontend/src/pages` has a file with its view: `/fleet` is `fleet.tsx`.
    """

    path: str
    title: str
    key: str = ""
    """The letter that opens it after `g`; none if another page has it."""
    icon: str = ""
    """The name of an icon of the page, or the path of one on a grid of 16: `M2 2h12v12h-12z`."""
    order: int = 100
    """Its place in the navigation; pages of the same order are sorted by title."""
    has_details: bool = False
    """Whether there are addresses below its path; always, with a table."""
    table: str = ""
    columns: tuple[Column, ...] = ()
    charts: tuple[Chart, ...] = ()
    """Above the table."""
    sections: tuple[Section, ...] = ()
    """Of the details."""
    state: Column | None = None
    """Shown beside the title of the details."""
    sort: str = ""
    """The field that rows are sorted by at first; `-field` for descending."""
    empty: str = ""
    """How to create the first object, where there is none."""
    hide_empty: bool = False
    """Leave it out of the navigation while its table has no rows, for what not every cluster
    has."""


class SearchTarget(DescriptionStruct, frozen=True):
    """Rows that the global search finds by name."""

    table: str
    kind: str
    """What a row is: `Instance`."""
    detail: tuple[str, ...] = ()
    """Shown beside the name, each with fields in braces: `on {node}`; omitted if one is empty."""
    order: int = 100
    """Among equal matches, rows of a lower order come first."""
