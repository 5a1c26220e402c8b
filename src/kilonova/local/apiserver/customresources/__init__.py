"""Custom resources: validating CustomResourceDefinitions and serving what they define.

Terms: a *definition* is a CustomResourceDefinition, its *instances* are the custom resources. Apart
from the set of trusted schemas, everything but `CrdHandler` is a pure function of definitions:

- `validate_definition` and `validate_definition_update` validate a written definition;
- `accept_names` (in `kilonova.local.objects.crd_names`, which the CRD controller shares) decides
  which of its names are accepted and sets its status; a definition whose names are accepted is
  *established*;
- `trust_definition` skips most validation for definitions shipped with the program;
- `kinds_from_definition` turns an established definition into one `Kind` per served version, whose
  strategy prunes, defaults and validates instances by that version's schema.

A definition is deleted in three steps. The delete request adds the finalizer `CLEANUP_FINALIZER`
(`mark_terminating`), and instances can no longer be created. A controller deletes the instances. It
then removes the finalizer; the definition is removed and its kinds are no longer served.

The entry point is `CrdHandler` (`crd_handler`), which keeps the served kinds up to date.
"""

from kilonova.local.apiserver.customresources.definition_validation import (
    is_validation_slow,
    validate_definition,
    validate_definition_update,
)
from kilonova.local.apiserver.customresources.kinds import kinds_from_definition
from kilonova.local.apiserver.customresources.scale import CustomResourceScale
from kilonova.local.apiserver.customresources.strategy import CustomResourceStrategy
from kilonova.local.apiserver.customresources.trusted_schemas import trust_definition

__all__ = [
    "CustomResourceScale",
    "CustomResourceStrategy",
    "is_validation_slow",
    "kinds_from_definition",
    "trust_definition",
    "validate_definition",
    "validate_definition_update",
]
