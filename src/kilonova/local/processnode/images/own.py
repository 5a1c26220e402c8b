"""The images of this project, which run with the Kilonova that serves this node."""

import os
import sys
from pathlib import Path

from kilonova.local.processnode.images.table import ImageEntry

_IMAGE = "kilonova"
_ENGINE_IMAGE = "kilonova/engine"
_IMPORT_PATH = "PYTHONPATH"


def list_own_images() -> tuple[ImageEntry, ...]:
    """Entries for `kilonova` and `kilonova/engine`, of any registry.

    The first is the image of `make image`, whose entrypoint is the command; the second runs what
    the variables of an instance's pod say. The command need not be on the PATH: it is the one
    beside this interpreter, and imports what this process imports.
    """
    env = {_IMPORT_PATH: os.environ[_IMPORT_PATH]} if _IMPORT_PATH in os.environ else {}
    programs = {"kilonova": str(Path(sys.executable).with_name("kilonova"))}
    entrypoints = {_IMAGE: ("kilonova",), _ENGINE_IMAGE: ("kilonova", "engine")}
    commands = {_IMAGE: (), _ENGINE_IMAGE: ("run",)}
    return tuple(
        ImageEntry(
            image=pattern,
            entrypoint=entrypoints[image],
            cmd=commands[image],
            env=env,
            programs=programs,
        )
        for image in (_IMAGE, _ENGINE_IMAGE)
        for pattern in (image, f"*/{image}")
    )
