"""The images of this project, which run with the Kilonova that serves this node."""

import os
import sys
from pathlib import Path

from kilonova.local.processnode.images.table import ImageEntry

_ENTRYPOINTS = {
    "kilonova": ("kilonova",),
    "kilonova/engine": (sys.executable, "-P", "-m", "kilonova.instances.engine"),
}
_IMPORT_PATH = "PYTHONPATH"


def list_own_images() -> tuple[ImageEntry, ...]:
    """Entries for `kilonova` and `kilonova/engine`, of any registry.

    The first is the image of `make image`, whose entrypoint is the command; the second runs what
    the variables of an instance's pod say. The command need not be on the PATH: it is the one
    beside this interpreter, and imports what this process imports.
    """
    programs = {"kilonova": str(Path(sys.executable).with_name("kilonova"))}
    env = {_IMPORT_PATH: os.environ[_IMPORT_PATH]} if _IMPORT_PATH in os.environ else {}
    return tuple(
        ImageEntry(image=pattern, entrypoint=entrypoint, env=env, programs=programs)
        for image, entrypoint in _ENTRYPOINTS.items()
        for pattern in (image, f"*/{image}")
    )
