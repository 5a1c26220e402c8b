"""The image table: how images of containers are run on this machine, which pulls none.

An **entry** specifies for an image what its OCI configuration would, for the programs of this
machine: `entrypoint`, `cmd`, `env` and `workingDir`. Kubernetes' rules apply: `command` of a
container replaces the entrypoint, `args` replace cmd. `programs` rename what is called otherwise
here, and `path` names folders in which programs are looked for first.

The entries of the user's file come before those of the table that is shipped (`default.yaml`); the
first entry whose `image` matches is used. An image without an entry runs the `command` of its
container alone.
"""

from kilonova.local.processnode.images.file import ImageTableError, load_image_table
from kilonova.local.processnode.images.table import ImageEntry, ImageTable, ResolvedCommand

__all__ = [
    "ImageEntry",
    "ImageTable",
    "ImageTableError",
    "ResolvedCommand",
    "load_image_table",
]
