"""The backend of `--backend`."""

from kilonova.catalog import Catalog
from kilonova.component.failure import CommandFailed
from kilonova.gpu.devices import selection
from kilonova.gpu.devices.backend import GpuBackend


def open_backend(text: str, catalog: Catalog) -> GpuBackend:
    """The backend that a text names; `CommandFailed` if there is none."""
    try:
        return selection.open_backend(text, catalog)
    except ValueError as error:
        raise CommandFailed(f"--backend {error}") from error
