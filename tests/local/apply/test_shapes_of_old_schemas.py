"""Shapes live as long as their schemas: kinds that are defined anew leave nothing behind."""

import gc
import weakref
from typing import Any

from kilonova.local.apply import created_object, shape_of
from kilonova.local.schema.node import read


class Text(dict[str, Any]):
    """A schema's text, of which one can know whether it is still there."""


def test_a_shape_is_compiled_once() -> None:
    schema = read({"type": "object"})
    assert shape_of(schema) is shape_of(schema)


def test_a_schema_that_nobody_uses_is_forgotten_with_its_shape() -> None:
    text = Text(type="object", properties={"spec": {"type": "object"}})
    schema = read(text)
    assert schema.source is text
    created_object(shape_of(schema), {"spec": {"a": 1}})
    text_of_old = weakref.ref(text)
    del text, schema
    gc.collect()
    assert text_of_old() is None
