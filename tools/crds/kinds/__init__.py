"""Names, versions, printer columns and subresources of our kinds: a module per API group.

Each module has `KINDS`; they are found by a scan of this folder.
"""

from importlib import import_module
from pkgutil import iter_modules

from tools.crds.model import CrdKind


def find_kinds() -> tuple[CrdKind, ...]:
    """The kinds of all modules."""
    modules = (import_module(f"{__name__}.{each.name}") for each in iter_modules(__path__))
    return tuple(kind for module in modules for kind in module.KINDS)
