"""Whether this machine has the programs that a pod's containers execute."""

import os
import shutil
import time
from collections.abc import Sequence
from functools import lru_cache

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.unstructured import nested_objects
from kilonova.local.objects.image_taint import all_containers
from kilonova.local.processnode.images import ImageTable, ResolvedCommand

_CACHE_SECONDS = 2.0
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class ProgramFinder:
    """Looks up the programs of containers, by their commands and the image table."""

    def __init__(self, images: ImageTable) -> None:
        self.images = images

    def can_run_pod(self, spec: JsonObject) -> bool:
        """Whether every container has a command that can be executed here.

        What is only known when the container starts (a program in a volume, or named by a
        variable) is assumed to exist.
        """
        return not self.explain_pod(spec)

    def explain_pod(self, spec: JsonObject) -> str:
        """Why a pod cannot run here; empty if it can."""
        problems = [self._explain_container(each) for each in all_containers(spec)]
        return next((each for each in problems if each), "")

    def _explain_container(self, container: JsonObject) -> str:
        name, image = container.get("name", ""), container.get("image", "")
        resolved = self.images.resolve(
            image, container.get("command") or (), container.get("args") or ()
        )
        if resolved is None:
            unknown = f"the image table does not specify what image {image} runs"
            return f'container "{name}" has no command, and {unknown}'
        if _has_program(container, resolved):
            return ""
        return f'container "{name}" runs {resolved.explain_missing()}'


def get_search_path() -> str:
    """The PATH in which programs are looked up, unless the container sets its own."""
    return os.environ.get("PATH") or DEFAULT_PATH


def _has_program(container: JsonObject, resolved: ResolvedCommand) -> bool:
    program = resolved.line[0]
    if "$(" in program:
        return True
    mounts = [each.get("mountPath", "") for each in nested_objects(container, "volumeMounts")]
    if "/" in program:
        folder = container.get("workingDir") or resolved.working_dir or "/"
        file = os.path.join(folder, program)
        return _is_below_any(file, mounts) or _find_program(file, "", _cache_period())
    path = _container_search_path(container) or resolved.get_search_path(get_search_path())
    if any(_is_below_any(folder, mounts) for folder in path.split(":")):
        return True
    return _find_program(program, path, _cache_period())


@lru_cache(maxsize=256)
def _find_program(program: str, path: str, _moment: int) -> bool:
    """Cached for a moment: many pods have the same command, and a lookup is slow."""
    return shutil.which(program, path=path) is not None


def _cache_period() -> int:
    return int(time.monotonic() / _CACHE_SECONDS)


def _container_search_path(container: JsonObject) -> str:
    """The PATH that a container sets; empty if it sets none."""
    for variable in nested_objects(container, "env"):
        if variable.get("name") == "PATH":
            return variable.get("value") or ""
    return ""


def _is_below_any(path: str, folders: Sequence[str]) -> bool:
    return any(f"{path}/".startswith(f"{folder.rstrip('/')}/") for folder in folders if folder)
