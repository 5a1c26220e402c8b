"""Which entries a list or a watch is about: namespace, name, labels, fields."""

from collections.abc import Callable
from dataclasses import dataclass

from kilonova.kube.transport import Request
from kilonova.local.kinds.base import Kind
from kilonova.local.registry.objects import field_values, key_of
from kilonova.local.routes import Target
from kilonova.local.selectors import (
    FieldTerm,
    parse_field_selector,
    parse_label_selector,
    unknown_field,
    unsupported_field,
)
from kilonova.local.storage import Entry, Interest

Test = Callable[[Entry], bool]
ByField = tuple[str, str, Callable[[Entry], str]]


@dataclass(frozen=True, slots=True)
class Selection:
    """A namespace (or all), perhaps one name, and a test for the rest; None tests nothing."""

    namespace: str
    name: str
    test: Test | None
    interest: Interest = None
    """Something that every selected entry has, for a watch that waits for one."""
    by_field: ByField | None = None
    """A field that has an index, the value asked for, and how an entry's is read."""

    def holds(self, entry: Entry) -> bool:
        """Whether the entry is meant. Its namespace is looked at as well."""
        key = entry.key
        if self.namespace and not key.startswith(f"{self.namespace}/"):
            return False
        if self.name and key.rpartition("/")[2] != self.name:
            return False
        return self.test is None or self.test(entry)

    @property
    def is_everything(self) -> bool:
        """No selector at all: then a page can say how many items remain."""
        return self.test is None and not self.name


def selection(target: Target, request: Request) -> Selection:
    """What the request selects; 400 for a selector that cannot be read or is not supported."""
    tests: list[Test] = []
    label_text = request.param("labelSelector")
    if label_text:
        matches = parse_label_selector(label_text).matches
        tests.append(lambda entry: matches(entry.labels))
    name = target.name
    namespace = target.namespace
    interest: Interest = None
    by_field: ByField | None = None
    for term in parse_field_selector(request.param("fieldSelector") or "").terms:
        plain = term.operator == "="
        if term.field == "metadata.name" and plain and not name:
            name = term.value
        elif term.field == "metadata.namespace" and plain and not namespace:
            namespace = term.value
        else:
            tests.append(_field_test(target.kind, term))
            if plain and term.field in target.kind.behavior.selectable:
                interest = (_position(target.kind, term), term.value)
            if plain and term.field in target.kind.behavior.indexed:
                by_field = (term.field, term.value, _reader(target.kind, term))
    if name and (namespace or not target.kind.namespaced):
        interest = ("key", key_of(namespace, name))
    elif namespace and interest is None:
        interest = ("namespace", namespace)
    return Selection(namespace, name, _all_of(tests), interest, by_field)


def _all_of(tests: list[Test]) -> Test | None:
    if len(tests) > 1:
        return lambda entry: all(test(entry) for test in tests)
    return tests[0] if tests else None


def _field_test(kind: Kind, term: FieldTerm) -> Test:
    wanted, equal = term.value, term.operator == "="
    if term.field == "metadata.name":
        return lambda entry: (entry.key.rpartition("/")[2] == wanted) is equal
    if term.field == "metadata.namespace":
        return lambda entry: (entry.key.rpartition("/")[0] == wanted) is equal
    read = _reader(kind, term)
    return lambda entry: (read(entry) == wanted) is equal


def _reader(kind: Kind, term: FieldTerm) -> Callable[[Entry], str]:
    position = _position(kind, term)
    return lambda entry: field_values(kind, entry)[position]


def _position(kind: Kind, term: FieldTerm) -> int:
    try:
        return list(kind.behavior.selectable).index(term.field)
    except ValueError:
        refuse = unsupported_field if kind.behavior.selectable else unknown_field
        raise refuse(term.field) from None
