"""Unstructured objects: plain JSON of any kind."""

from typing import Any, TypeAlias

JsonObject: TypeAlias = dict[str, Any]
"""A decoded JSON object of any kind; its values are JSON values."""
