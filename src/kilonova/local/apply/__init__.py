"""Server-side apply, and the record of who owns which field of an object.

The words: a *manager* is a program or person that writes objects, known by a name it gives
itself. It *owns* the fields it set last, which an *entry* of `metadata.managedFields` lists
as a set of field paths (`fields`). How values split into fields follows from the *shape* of
the kind (`shapes`), which is compiled from its schema.

`record_update` is called for every create, update and patch, `apply` for every apply. Both
are functions of plain JSON; the behaviour is that of Kubernetes, where the reference is the
library structured-merge-diff. One thing is simpler: entries of another version of a kind are
read with the schema of the version at hand.
"""

from kilonova.local.apply.applying import apply
from kilonova.local.apply.compare import Comparison, compare
from kilonova.local.apply.conflict import ApplyConflict, Conflict
from kilonova.local.apply.fields import Fields, Filter, ignoring, only
from kilonova.local.apply.ownership import created_object, field_set
from kilonova.local.apply.shapes import Shape, shape_of
from kilonova.local.apply.updating import keep_times, record_update

__all__ = [
    "ApplyConflict",
    "Comparison",
    "Conflict",
    "Fields",
    "Filter",
    "Shape",
    "apply",
    "compare",
    "created_object",
    "field_set",
    "ignoring",
    "keep_times",
    "only",
    "record_update",
    "shape_of",
]
