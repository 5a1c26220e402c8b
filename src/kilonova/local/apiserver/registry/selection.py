"""Selection of entries for lists and watches: namespace, name, labels, fields."""

from collections.abc import Callable
from dataclasses import dataclass

from kilonova.local.apimachinery.selectors import (
    FieldRequirement,
    unknown_field_error,
    unsupported_field_error,
)
from kilonova.local.apiserver.endpoints.resource_target import ResourceTarget
from kilonova.local.apiserver.kinds.kind import Kind
from kilonova.local.apiserver.registry.encoding import field_values, object_key
from kilonova.local.apiserver.registry.options import ListOptions, WatchOptions
from kilonova.local.apiserver.storage import Entry, WatchInterest

EntryPredicate = Callable[[Entry], bool]
IndexedField = tuple[str, str, Callable[[Entry], str]]


@dataclass(frozen=True, slots=True)
class EntrySelector:
    """A namespace (or all), an optional name, and a predicate for the rest; None: no predicate."""

    namespace: str
    name: str
    predicate: EntryPredicate | None
    interest: WatchInterest = None
    """A property that every selected entry has, for a watch that waits for one."""
    indexed_field: IndexedField | None = None
    """An indexed field, the required value, and the reader of an entry's value."""

    def matches(self, entry: Entry) -> bool:
        """Whether the entry is selected, including its namespace."""
        key = entry.key
        if self.namespace and not key.startswith(f"{self.namespace}/"):
            return False
        if self.name and key.rpartition("/")[2] != self.name:
            return False
        return self.predicate is None or self.predicate(entry)

    @property
    def is_everything(self) -> bool:
        """Without selectors, a page can include the number of remaining items."""
        return self.predicate is None and not self.name


def entry_selector(target: ResourceTarget, options: ListOptions | WatchOptions) -> EntrySelector:
    """The entries that the target and the selectors select; 400 for a field that the kind does not
    support."""
    tests: list[EntryPredicate] = []
    if options.label_selector:
        matches = options.label_selector.matches
        tests.append(lambda entry: matches(entry.labels))
    name = target.name
    namespace = target.namespace
    interest: WatchInterest = None
    by_field: IndexedField | None = None
    for term in options.field_selector.terms:
        is_equality = term.operator == "="
        if term.field == "metadata.name" and is_equality and not name:
            name = term.value
        elif term.field == "metadata.namespace" and is_equality and not namespace:
            namespace = term.value
        else:
            tests.append(_field_predicate(target.kind, term))
            if is_equality and term.field in target.kind.strategy.selectable_fields:
                interest = (_field_position(target.kind, term), term.value)
            if is_equality and term.field in target.kind.strategy.indexed_fields:
                by_field = (term.field, term.value, _field_reader(target.kind, term))
    if name and (namespace or not target.kind.namespaced):
        interest = ("key", object_key(namespace, name))
    elif namespace and interest is None:
        interest = ("namespace", namespace)
    return EntrySelector(namespace, name, _all_predicates(tests), interest, by_field)


def _all_predicates(tests: list[EntryPredicate]) -> EntryPredicate | None:
    if len(tests) > 1:
        return lambda entry: all(test(entry) for test in tests)
    return tests[0] if tests else None


def _field_predicate(kind: Kind, term: FieldRequirement) -> EntryPredicate:
    expected, equal = term.value, term.operator == "="
    if term.field == "metadata.name":
        return lambda entry: (entry.key.rpartition("/")[2] == expected) is equal
    if term.field == "metadata.namespace":
        return lambda entry: (entry.key.rpartition("/")[0] == expected) is equal
    read = _field_reader(kind, term)
    return lambda entry: (read(entry) == expected) is equal


def _field_reader(kind: Kind, term: FieldRequirement) -> Callable[[Entry], str]:
    position = _field_position(kind, term)
    return lambda entry: field_values(kind, entry)[position]


def _field_position(kind: Kind, term: FieldRequirement) -> int:
    try:
        return list(kind.strategy.selectable_fields).index(term.field)
    except ValueError:
        error = unsupported_field_error if kind.strategy.selectable_fields else unknown_field_error
        raise error(term.field) from None
