"""Kilonova's image: its name, its layers, and how containers of it run."""

import importlib.metadata
import sys
import tempfile
import time
from pathlib import Path

from tools.image.archive import Image, ImageConfig, build_image
from tools.image.contents import USER_ID, stage_dependencies, stage_kilonova, stage_python
from tools.image.layers import Layer, build_layer

VERSION = importlib.metadata.version("kilonova")
NAME = f"docker.io/library/kilonova:{VERSION}"
"""What `deploy/` calls the image, in full."""

CONFIG = ImageConfig(
    entrypoint=("kilonova",),
    user=f"{USER_ID}:{USER_ID}",
    environment={
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
    },
    labels={
        "org.opencontainers.image.title": "kilonova",
        "org.opencontainers.image.version": VERSION,
        "org.opencontainers.image.description": "AI workloads on GPU clusters, end to end",
        "org.opencontainers.image.licenses": "Apache-2.0",
    },
)

_STAGES = {
    "Python": stage_python,
    "dependencies": stage_dependencies,
    "Kilonova": stage_kilonova,
}


def build_kilonova_image() -> Image:
    """The image of this source tree, with progress on standard error."""
    layers: list[Layer] = []
    for number, (name, stage) in enumerate(_STAGES.items(), 1):
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            stage(Path(folder))
            layers.append(build_layer(Path(folder), f"make image: {name}"))
        size, seconds = len(layers[-1].content) / 1e6, time.monotonic() - started
        text = f"[{number}/{len(_STAGES)}] {name}: {size:.0f} MB, {seconds:.0f} s"
        print(text, file=sys.stderr, flush=True)
    return build_image(layers, CONFIG)
