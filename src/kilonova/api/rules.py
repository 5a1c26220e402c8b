"""Rules that a definition of a kind carries in CEL, stated beside the type they are about.

A type has them as a class variable `RULES`; `tools/crds` writes them into the definition.
"""

import msgspec


class Rule(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What must hold of an object, as `x-kubernetes-validations` has it."""

    rule: str
    message: str
    reason: str = ""
    field_path: str = ""
    """Which field is to blame, where it is not the object itself."""
    optional_old_self: bool | None = None
    """Checked at creation as well, `oldSelf` being an optional."""
