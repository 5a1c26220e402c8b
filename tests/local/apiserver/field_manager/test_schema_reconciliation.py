"""Merge schemas live as long as their schemas: redefined kinds leave nothing behind."""

import gc
import weakref
from typing import Any

from kilonova.local.apiserver.field_manager import compile_merge_schema, created_object_fields
from kilonova.local.apiserver.schema.node import parse_schema


class Text(dict[str, Any]):
    """A schema's source that supports weak references."""


def test_merge_schema_is_compiled_once() -> None:
    schema = parse_schema({"type": "object"})
    assert compile_merge_schema(schema) is compile_merge_schema(schema)


def test_unused_schema_is_released_with_its_merge_schema() -> None:
    text = Text(type="object", properties={"spec": {"type": "object"}})
    schema = parse_schema(text)
    assert schema.source is text
    created_object_fields(compile_merge_schema(schema), {"spec": {"a": 1}})
    text_of_old = weakref.ref(text)
    del text, schema
    gc.collect()
    assert text_of_old() is None
