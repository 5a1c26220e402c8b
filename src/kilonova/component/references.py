"""References to code, `"package.module:attribute"`, that is imported when it is needed."""

from importlib import import_module, invalidate_caches
from typing import Any


class BrokenReference(Exception):
    """The module of a reference cannot be imported, or lacks the attribute."""


def load_reference(reference: str) -> Any:
    """The object that a reference names; `BrokenReference` states why there is none."""
    module_name, _, attribute = reference.partition(":")
    try:
        return getattr(import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        invalidate_caches()  # the next attempt finds what is installed meanwhile
        raise BrokenReference(f"{reference} cannot be loaded: {error}") from error
