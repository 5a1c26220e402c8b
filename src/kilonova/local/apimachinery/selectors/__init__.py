"""Label and field selectors.

A selector is a conjunction. A label selector consists of *requirements* on keys (`=`, `in`, exists
…), a field selector of *terms* that compare one field with one value. Both are values that format
as text and have `matches`, compiled once: a plain function from labels (or fields) to a bool.
`exact_value` is the only value that a key may have, for stores with an index.

Parsing raises `ApiError` 400 with Kubernetes' messages. Entry points: `parse_label_selector`,
`parse_field_selector`, `selector_from_object`.
"""

from kilonova.local.apimachinery.selectors.fields import (
    FieldRequirement,
    FieldSelector,
    parse_field_selector,
    unknown_field_error,
    unsupported_field_error,
)
from kilonova.local.apimachinery.selectors.labels import (
    EVERYTHING,
    NOTHING,
    LabelSelector,
    Operator,
    Requirement,
    selector_from_object,
)
from kilonova.local.apimachinery.selectors.syntax import parse_label_selector

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "FieldRequirement",
    "FieldSelector",
    "LabelSelector",
    "Operator",
    "Requirement",
    "parse_field_selector",
    "parse_label_selector",
    "selector_from_object",
    "unknown_field_error",
    "unsupported_field_error",
]
