"""CEL validation rules of our kinds, defined beside the type that they validate.

A type has them as a class variable `RULES`; `tools/crds` writes them into the definition.
"""

import msgspec


class ValidationRule(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A rule of `x-kubernetes-validations`."""

    rule: str
    message: str
    reason: str = ""
    field_path: str = ""
    """The path of the invalid field, if it is not the object itself."""
    optional_old_self: bool | None = None
    """Evaluated at creation as well, with `oldSelf` as an optional."""
