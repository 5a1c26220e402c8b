"""Labels of all nodes as columns: one small integer per node for each key in use.

A requirement on a label becomes a table over the values of its key, and its result for many nodes
is one look-up in that table. A column is created when its key is first used, and updated as nodes
change.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from kilonova.scheduler.core.model.requirements import NodeSelectorTerm, Requirement

Codes = NDArray[np.int32]
Flags = NDArray[np.bool_]
Rows = NDArray[np.intp]

NODE_NAME = "metadata.name"
"""Key of the column of node names."""

ABSENT = -1


class LabelColumn:
    """Values of one key: `values[codes[row]]` is the value of a node, `ABSENT` means no value."""

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

    def assign(self, values: Sequence[str | None]) -> None:
        """Sets the values of the first rows."""
        found = dict.fromkeys(value for value in values if value is not None)
        self.values = list(found)
        self._code_of = {value: code for code, value in enumerate(self.values)}
        codes = [ABSENT if value is None else self._code_of[value] for value in values]
        self.codes[: len(codes)] = codes

    def copy(self) -> "LabelColumn":
        other = LabelColumn(0)
        other.codes, other.values = self.codes.copy(), self.values.copy()
        other._code_of = self._code_of.copy()
        return other

    def grow(self, rows: int) -> None:
        longer = np.full(rows, ABSENT, np.int32)
        longer[: len(self.codes)] = self.codes
        self.codes = longer


class LabelColumns:
    """Columns by label key."""

    def __init__(self) -> None:
        self._labels: list[Mapping[str, str]] = []
        self._names: list[str] = []
        self._columns: dict[str, LabelColumn] = {}

    def copy(self) -> "LabelColumns":
        """An independent copy."""
        other = LabelColumns()
        other._labels, other._names = self._labels.copy(), self._names.copy()
        other._columns = {key: column.copy() for key, column in self._columns.items()}
        return other

    def set_row(self, row: int, name: str, labels: Mapping[str, str]) -> None:
        """Sets the labels of a node; new rows are appended in order."""
        if row == len(self._labels):
            self._labels.append(labels)
            self._names.append(name)
        else:
            self._labels[row] = labels
            self._names[row] = name
        for key, column in self._columns.items():
            if row >= len(column.codes):
                column.grow(max(16, 2 * row))
            column.set(row, name if key == NODE_NAME else labels.get(key))

    def clear_row(self, row: int) -> None:
        self._labels[row] = {}
        for column in self._columns.values():
            column.set(row, None)

    def labels_of(self, row: int) -> Mapping[str, str]:
        return self._labels[row]

    def column(self, key: str) -> LabelColumn:
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = LabelColumn(max(16, len(self._labels)))
            column.assign(
                self._names if key == NODE_NAME else [each.get(key) for each in self._labels]
            )
        return column

    def domains(self, key: str, rows: Rows) -> Codes:
        """The domain of each row at a level."""
        return self.column(key).codes[rows]

    def domain_ranks(self, key: str, rows: Rows) -> Codes:
        """The domain of each row at a level, as its position in the sorted domain names."""
        column = self.column(key)
        order = np.full(len(column.values) + 1, ABSENT, np.int32)
        order[np.argsort(np.array(column.values, np.str_), kind="stable")] = np.arange(
            len(column.values)
        )
        return order[column.codes[rows]]

    def matches_any(self, terms: Sequence[NodeSelectorTerm], rows: Rows) -> Flags:
        """Where at least one of the terms matches."""
        held = np.zeros(len(rows), np.bool_)
        for term in terms:
            held |= self.matches(term, rows)
        return held

    def matches(self, term: NodeSelectorTerm, rows: Rows) -> Flags:
        """Where all requirements of a term match."""
        requirements = [
            *term.labels,
            *(Requirement(NODE_NAME, n.operator, n.values) for n in term.names),
        ]
        if not requirements:
            return np.zeros(len(rows), np.bool_)
        held = np.ones(len(rows), np.bool_)
        for requirement in requirements:
            column = self.column(requirement.key)
            held &= _match_table(column, requirement)[column.codes[rows]]
        return held

    def matches_selector(self, pairs: Sequence[tuple[str, str]], rows: Rows) -> Flags:
        """Where all labels have these values."""
        held = np.ones(len(rows), np.bool_)
        for key, value in pairs:
            column = self.column(key)
            code = column.code(value)
            if code == ABSENT:
                return np.zeros(len(rows), np.bool_)
            held &= column.codes[rows] == code
        return held


def _match_table(column: LabelColumn, requirement: Requirement) -> Flags:
    """By code, whether the value matches; the last entry, indexed by -1, is for an absent label."""
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
                table[code] = requirement.matches({requirement.key: value})
    return table
