"""Custom kinds: what a CustomResourceDefinition makes of the server.

Words: a *definition* is a CustomResourceDefinition, its *instances* are the custom resources.
Everything here is a pure function of definitions, but for what is vouched for:

- `definition_problems` and `change_problems` judge a definition that somebody writes;
- `accept_names` decides which of its names it gets, and writes that into its status; a
  definition whose names are accepted is *established*;
- `vouch_for` spares a definition that comes with the program most of that judgement;
- `kinds_of` turns an established definition into one `Kind` for each served version, whose
  behaviour prunes, defaults and validates instances by the schema of that version.

The life of a definition ends in three steps. A delete adds the finalizer `CLEANUP_FINALIZER`
(`mark_terminating`), and instances can no longer be created. Whoever runs the server deletes
the instances. When none is left it removes the finalizer, and the definition goes, and with
it its kinds.
"""

from kilonova.local.customresources.acceptance import (
    CLEANUP_FINALIZER,
    accept_names,
    is_established,
    mark_terminating,
)
from kilonova.local.customresources.behavior import CustomBehavior
from kilonova.local.customresources.definition import (
    change_problems,
    definition_problems,
    judgement_is_slow,
)
from kilonova.local.customresources.kinds import kinds_of
from kilonova.local.customresources.scale import CustomScale
from kilonova.local.customresources.vouched import vouch_for

__all__ = [
    "CLEANUP_FINALIZER",
    "CustomBehavior",
    "CustomScale",
    "accept_names",
    "change_problems",
    "definition_problems",
    "is_established",
    "judgement_is_slow",
    "kinds_of",
    "mark_terminating",
    "vouch_for",
]
