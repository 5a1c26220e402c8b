"""Labels of all nodes as columns: for each key that anything asked for, one small integer a node.

A condition on a label is then a table over the values of its key, and a vector of nodes is one
look-up in it. Columns are made when a key is first asked for, and kept true as nodes change.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from kilonova.scheduler.core.requirements import NodeTerm, Requirement

Codes = NDArray[np.int32]
Flags = NDArray[np.bool_]
Rows = NDArray[np.intp]

NAME = "metadata.name"
"""Column of the nodes' names."""

ABSENT = -1


class Column:
    """Values of one key: `codes[row]` says which of `values` a node has, `ABSENT` if none."""

    def __init__(self, rows: int) -> None:
        self.codes: Codes = np.full(rows, ABSENT, np.int32)
        self.values: list[str] = []
        self._code_of: dict[str, int] = {}

    def code(self, value: str) -> int:
        """Code of a value, `ABSENT` if no node ever had it."""
        return self._code_of.get(value, ABSENT)

    def set(self, row: int, value: str | None) -> None:
        if value is None:
            self.codes[row] = ABSENT
            return
        code = self._code_of.get(value)
        if code is None:
            code = self._code_of[value] = len(self.values)
            self.values.append(value)
        self.codes[row] = code

    def fill(self, values: Sequence[str | None]) -> None:
        """Sets the first rows."""
        found = dict.fromkeys(value for value in values if value is not None)
        self.values = list(found)
        self._code_of = {value: code for code, value in enumerate(self.values)}
        codes = [ABSENT if value is None else self._code_of[value] for value in values]
        self.codes[: len(codes)] = codes

    def copy(self) -> "Column":
        other = Column(0)
        other.codes, other.values = self.codes.copy(), self.values.copy()
        other._code_of = self._code_of.copy()
        return other

    def grow(self, rows: int) -> None:
        longer = np.full(rows, ABSENT, np.int32)
        longer[: len(self.codes)] = self.codes
        self.codes = longer


class Labels:
    """Columns by key."""

    def __init__(self) -> None:
        self._labels: list[Mapping[str, str]] = []
        self._names: list[str] = []
        self._columns: dict[str, Column] = {}

    def copy(self) -> "Labels":
        """The same labels, which change by themselves from now on."""
        other = Labels()
        other._labels, other._names = self._labels.copy(), self._names.copy()
        other._columns = {key: column.copy() for key, column in self._columns.items()}
        return other

    def put(self, row: int, name: str, labels: Mapping[str, str]) -> None:
        """Takes a node's labels; rows are given out one after the other."""
        if row == len(self._labels):
            self._labels.append(labels)
            self._names.append(name)
        else:
            self._labels[row] = labels
            self._names[row] = name
        for key, column in self._columns.items():
            if row >= len(column.codes):
                column.grow(max(16, 2 * row))
            column.set(row, name if key == NAME else labels.get(key))

    def drop(self, row: int) -> None:
        self._labels[row] = {}
        for column in self._columns.values():
            column.set(row, None)

    def of(self, row: int) -> Mapping[str, str]:
        return self._labels[row]

    def column(self, key: str) -> Column:
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = Column(max(16, len(self._labels)))
            column.fill(self._names if key == NAME else [each.get(key) for each in self._labels])
        return column

    def domains(self, key: str, rows: Rows) -> Codes:
        """Which domain of a level each row stands in."""
        return self.column(key).codes[rows]

    def places(self, key: str, rows: Rows) -> Codes:
        """The domain of a level in which each row stands, by its place in the order of names."""
        column = self.column(key)
        order = np.full(len(column.values) + 1, ABSENT, np.int32)
        order[np.argsort(np.array(column.values, np.str_), kind="stable")] = np.arange(
            len(column.values)
        )
        return order[column.codes[rows]]

    def any_holds(self, terms: Sequence[NodeTerm], rows: Rows) -> Flags:
        """Where at least one of the terms holds."""
        held = np.zeros(len(rows), np.bool_)
        for term in terms:
            held |= self.holds(term, rows)
        return held

    def holds(self, term: NodeTerm, rows: Rows) -> Flags:
        """Where all conditions of a term hold."""
        requirements = [
            *term.labels,
            *(Requirement(NAME, n.operator, n.values) for n in term.names),
        ]
        if not requirements:
            return np.zeros(len(rows), np.bool_)
        held = np.ones(len(rows), np.bool_)
        for requirement in requirements:
            column = self.column(requirement.key)
            held &= _table(column, requirement)[column.codes[rows]]
        return held

    def equal(self, pairs: Sequence[tuple[str, str]], rows: Rows) -> Flags:
        """Where all labels have these values."""
        held = np.ones(len(rows), np.bool_)
        for key, value in pairs:
            column = self.column(key)
            code = column.code(value)
            if code == ABSENT:
                return np.zeros(len(rows), np.bool_)
            held &= column.codes[rows] == code
        return held


def _table(column: Column, requirement: Requirement) -> Flags:
    """By code, whether a value will do; the last entry, which -1 finds, is for no value."""
    count = len(column.values)
    table = np.zeros(count + 1, np.bool_)
    match requirement.operator:
        case "In" | "NotIn":
            codes = [column.code(value) for value in requirement.values]
            table[[code for code in codes if code != ABSENT]] = True
            return table if requirement.operator == "In" else ~table
        case "Exists":
            table[:count] = True
        case "DoesNotExist":
            table[count] = True
        case "Gt" | "Lt":
            for code, value in enumerate(column.values):
                table[code] = requirement.holds({requirement.key: value})
    return table
