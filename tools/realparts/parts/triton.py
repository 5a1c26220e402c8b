"""Triton Inference Server with its Python backend: the server in the wheel of PyTriton.

PyTriton itself is not used. Models in Python run in the interpreter that made the part, with NumPy
below 2, which the backend needs: with a newer one its outputs are empty without an error.
`bin/tritonserver` starts the server with its libraries and backends.
"""

import os
import shutil
import sys
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path

from tools.realparts.part import CachedPart, PartUnavailable
from tools.realparts.progress import Progress
from tools.realparts.sources.shared_libraries import Wrapper
from tools.realparts.sources.wheels import Wheels

COMMAND = "bin/tritonserver"
_SERVER = "pytriton/tritonserver"
_ENVIRONMENT = "python"
_STUB = "triton_python_backend_stub"
_WHEELS = Wheels("triton", files=(f"{_SERVER}/bin/tritonserver",))
_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
_PYTHON_LIBRARIES = sysconfig.get_config_var("LIBDIR") or ""
_WRAPPER = Wrapper(
    path=COMMAND,
    program=f"{_SERVER}/bin/tritonserver",
    # The backend runs this interpreter: its library counts, not one that is found elsewhere.
    libraries=(_PYTHON_LIBRARIES, "nvidia_pytriton.libs"),
    # It looks for its packages where the first `python3` on the PATH does, whatever PYTHONPATH is.
    environment={"PATH": f"$part/{_ENVIRONMENT}/bin:$PATH"},
    arguments=f'--backend-directory="$part/{_SERVER}/backends"',
)


@dataclass(frozen=True)
class TritonServer:
    """The wheels, the backend's program for this interpreter, and the command."""

    files: tuple[str, ...] = (COMMAND, f"{_SERVER}/backends/python/{_STUB}", *_WHEELS.files)

    @property
    def pins(self) -> bytes:
        return _WHEELS.pins + _WRAPPER.format().encode()

    def make(self, folder: Path, progress: Progress) -> str | None:
        _check_interpreter()
        _WHEELS.make(folder, progress)
        stub = folder / _SERVER / "python_backend_stubs" / _PYTHON / _STUB
        if not stub.exists():
            found = ", ".join(sorted(each.name for each in stub.parents[1].iterdir()))
            raise PartUnavailable(
                f"its Python backend runs Python {found}, and this is {_PYTHON}: run "
                "`make real-parts` with one of them, as in `make PYTHON=python3.11 real-parts`"
            )
        target = folder / _SERVER / "backends" / "python" / _STUB
        shutil.copy(stub, target)
        target.chmod(0o755)
        _make_environment(folder)
        _WRAPPER.write(folder)


def _make_environment(folder: Path) -> None:
    """An environment of this interpreter that sees the wheels at the top of the folder alone."""
    environment = folder / _ENVIRONMENT
    venv.create(environment, clear=True, symlinks=True, with_pip=False)
    packages = environment / "lib" / f"python{_PYTHON}" / "site-packages"
    (packages / "triton.pth").write_text(os.path.relpath(folder, packages) + "\n")


def _check_interpreter() -> None:
    library = sysconfig.get_config_var("INSTSONAME") or ""
    if not (Path(_PYTHON_LIBRARIES) / library).is_file() or ".so" not in library:
        raise PartUnavailable(
            f"its Python backend needs the shared library of Python {_PYTHON}, and "
            f"{sys.executable} has none: use a Python built with --enable-shared (Debian: "
            f"libpython{_PYTHON})"
        )
    if sys.version_info >= (3, 13):
        raise PartUnavailable(
            f"NumPy below 2, which its Python backend needs, has no wheels for Python {_PYTHON}: "
            "run `make real-parts` with Python 3.11 or 3.12, as in `make PYTHON=python3.11 "
            "real-parts`"
        )


PART = CachedPart("triton", "0.7.0", TritonServer())
