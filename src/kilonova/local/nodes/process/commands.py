"""Whether this machine has the programs that the containers of a pod execute."""

import os
import shutil
import time
from collections.abc import Sequence
from functools import lru_cache

from kilonova.api.json import JsonObject
from kilonova.local.controllers.nodes.imagetaint import all_containers
from kilonova.local.kinds.walk import objects

_REMEMBERED_SECONDS = 2.0
USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def can_run(spec: JsonObject) -> bool:
    """Whether every container has a command that can be executed here.

    What is only known when a container starts (a program in a volume, or named by a variable) is
    taken to be there.
    """
    return all(_is_executable(each) for each in all_containers(spec))


def machine_path() -> str:
    """Where programs are looked for, unless the container says otherwise."""
    return os.environ.get("PATH") or USUAL_PATH


def _is_executable(container: JsonObject) -> bool:
    command: Sequence[str] = container.get("command") or ()
    if not command:
        return False
    program = command[0]
    if "$(" in program:
        return True
    mounts = [each.get("mountPath", "") for each in objects(container, "volumeMounts")]
    if "/" in program:
        file = os.path.join(container.get("workingDir") or "/", program)
        return _is_below(file, mounts) or _is_found(file, "", _moment())
    path = _path_of(container)
    if any(_is_below(folder, mounts) for folder in path.split(":")):
        return True
    return _is_found(program, path, _moment())


@lru_cache(maxsize=256)
def _is_found(program: str, path: str, _moment: int) -> bool:
    """Remembered for a moment: many pods have the same command, and a look takes long."""
    return shutil.which(program, path=path) is not None


def _moment() -> int:
    return int(time.monotonic() / _REMEMBERED_SECONDS)


def _path_of(container: JsonObject) -> str:
    for variable in objects(container, "env"):
        if variable.get("name") == "PATH":
            return variable.get("value") or machine_path()
    return machine_path()


def _is_below(path: str, folders: Sequence[str]) -> bool:
    return any(f"{path}/".startswith(f"{folder.rstrip('/')}/") for folder in folders if folder)
