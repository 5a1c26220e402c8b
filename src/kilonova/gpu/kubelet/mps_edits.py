"""What containers get in order to use an MPS server, and how its failures are reported."""

from collections.abc import Generator
from contextlib import contextmanager

from kilonova.gpu.cdi.spec import ContainerEdits, Mount
from kilonova.gpu.kubelet.interfaces import AllocationRefused
from kilonova.gpu.sharing.mps.control import MpsError
from kilonova.gpu.sharing.mps.sharing import MpsClientSettings, ShareRefused

_WRITABLE = ("rw", "nosuid", "nodev", "bind")
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 (clients and server exchange data there)


def build_mps_edits(settings: MpsClientSettings) -> ContainerEdits:
    """The variables of a client, the server's pipes, and the host's shared memory."""
    pipe = settings.pipe_directory
    return ContainerEdits(
        tuple(f"{name}={value}" for name, value in settings.environment.items()),
        mounts=(Mount(pipe, pipe, _WRITABLE), Mount(_SHARED_MEMORY, _SHARED_MEMORY, _WRITABLE)),
    )


@contextmanager
def reporting_mps_failures() -> Generator[None]:
    """Failures of MPS as refusals."""
    try:
        yield
    except (MpsError, ShareRefused) as error:
        raise AllocationRefused(str(error)) from error
