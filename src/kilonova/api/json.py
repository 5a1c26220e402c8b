"""Objects as plain JSON, where the kind is not known when the code is written."""

from typing import Any, TypeAlias

JsonObject: TypeAlias = dict[str, Any]
"""A decoded JSON object of any kind; its values are JSON values."""
