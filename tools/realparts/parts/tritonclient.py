"""Triton's client for Python, and perf_analyzer, in an environment of their own.

The client's packages lie at the top of the folder: put it on PYTHONPATH of an interpreter that has
nothing else. `perf_analyzer` is the command.
"""

from dataclasses import dataclass
from pathlib import Path

from tools.realparts.part import CachedPart
from tools.realparts.progress import Progress
from tools.realparts.sources.debian import DebianPackages
from tools.realparts.sources.shared_libraries import Wrapper
from tools.realparts.sources.wheels import Wheels

PERF_ANALYZER = "perf_analyzer"
_LIBRARY = "usr/lib/x86_64-linux-gnu"
_WHEELS = Wheels("tritonclient", files=("bin/perf_analyzer", "tritonclient/grpc/__init__.py"))
_PACKAGES = DebianPackages(("libb64-0d",), files=(f"{_LIBRARY}/libb64.so.0d",))
_WRAPPER = Wrapper(
    path=PERF_ANALYZER,
    program="bin/perf_analyzer",
    libraries=(_LIBRARY, "nvidia/cuda_runtime/lib"),
)


@dataclass(frozen=True)
class TritonClient:
    """The wheels, the libraries of perf_analyzer, and its command."""

    files: tuple[str, ...] = (PERF_ANALYZER, *_WHEELS.files, *_PACKAGES.files)

    @property
    def pins(self) -> bytes:
        return _WHEELS.pins + _PACKAGES.pins + _WRAPPER.format().encode()

    def make(self, folder: Path, progress: Progress) -> str | None:
        _WHEELS.make(folder, progress)
        _PACKAGES.make(folder, progress)
        _WRAPPER.write(folder)


PART = CachedPart("tritonclient", "2.51.0", TritonClient())
