"""Selectors: which objects a list, a watch or a controller means, by labels or by fields.

A selector is a conjunction. A label selector is made of *requirements* on keys (equal, in a set,
there, absent …), a field selector of *terms* that compare one field with one value. Both are
values, know how to write themselves, and carry `matches`, compiled once: a plain function
from labels (or fields) to a bool. `exact` gives the one value that a key must have, for stores
that keep an index.

Everything here is pure; parsing raises ApiError 400 with Kubernetes' words.
"""

from kilonova.local.selectors.fields import (
    FieldSelector,
    FieldTerm,
    parse_field_selector,
    unknown_field,
    unsupported_field,
)
from kilonova.local.selectors.labels import (
    EVERYTHING,
    NOTHING,
    LabelSelector,
    Operator,
    Requirement,
    label_selector,
)
from kilonova.local.selectors.syntax import parse_label_selector

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "FieldSelector",
    "FieldTerm",
    "LabelSelector",
    "Operator",
    "Requirement",
    "label_selector",
    "parse_field_selector",
    "parse_label_selector",
    "unknown_field",
    "unsupported_field",
]
