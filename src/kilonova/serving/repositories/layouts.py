"""Which folders of a repository are models, in each layout. Pure."""

import re
from collections.abc import Iterable

from kilonova.api.serving.repositories import RepositoryLayout
from kilonova.serving.repositories.errors import RepositoryError
from kilonova.serving.repositories.manifest import MANIFEST

_HUB_CACHE = re.compile(
    r"models--(?P<org>[^/]+?)--(?P<model>[^/]+)/"
    r"(?:blobs/|refs/|\.no_exist/|snapshots/(?P<commit>[^/]+)/)"
)
SNAPSHOT_FILE = "config.json"
"""The file that every snapshot of Hugging Face's has at its top."""
WHOLE_REPOSITORY = ""
"""The folder of a repository that is one model."""


def arrange_paths(paths: Iterable[str], layout: RepositoryLayout, where: str) -> dict[str, str]:
    """Where each file of a repository goes. Files keep their paths, but for those of Hugging Face's
    cache, `models--ORG--MODEL/snapshots/COMMIT/…`, which become `ORG/MODEL/…`; what the cache has
    beside snapshots is left out."""
    if layout == "Triton":
        return {path: path for path in paths}
    arranged: dict[str, str] = {}
    commits: dict[str, str] = {}
    for path in paths:
        found = _HUB_CACHE.match(path)
        if found is None:
            arranged[path] = path
        elif found["commit"]:
            model = f"{found['org']}/{found['model']}"
            if commits.setdefault(model, found["commit"]) != found["commit"]:
                problem = f"{model} has several snapshots: {commits[model]}, {found['commit']}"
                fix = "name the folder of one, models--ORG--MODEL/snapshots/COMMIT, in the URL"
                raise RepositoryError(where, problem, fix)
            arranged[path] = f"{model}/{path[found.end() :]}"
    return arranged


def find_models(paths: Iterable[str], layout: RepositoryLayout, where: str) -> tuple[str, ...]:
    """The folders of the models, sorted; `RepositoryError` if there is none."""
    found = _find_triton(paths) if layout == "Triton" else _find_snapshots(paths)
    if found:
        return tuple(sorted(found))
    wanted = "a folder for each model, such as MODEL/1/model.onnx"
    if layout == "HuggingFace":
        wanted = f"a folder with {SNAPSHOT_FILE} for each model, or one at its top"
    raise RepositoryError(where, f"it has no model of the layout {layout}", f"it needs {wanted}")


def _find_triton(paths: Iterable[str]) -> set[str]:
    return {path.partition("/")[0] for path in paths if "/" in path}


def _find_snapshots(paths: Iterable[str]) -> set[str]:
    """Folders of a `config.json` that are not part of another model: parts of a pipeline have one
    each, too."""
    folders = {path.rpartition("/")[0] for path in paths if path.split("/")[-1] == SNAPSHOT_FILE}
    if WHOLE_REPOSITORY in folders:
        return {WHOLE_REPOSITORY}
    return {each for each in folders if _find_model(each, frozenset(folders)) is None}


def group_by_model(paths: Iterable[str], models: Iterable[str]) -> dict[str | None, list[str]]:
    """The files of each model; those of None are beside models, as the manifest."""
    known = frozenset(models)
    grouped: dict[str | None, list[str]] = {None: [], **{each: [] for each in known}}
    for path in paths:
        grouped[_find_model(path, known)].append(path)
    return grouped


def _find_model(path: str, models: frozenset[str]) -> str | None:
    # By the folders of the path, not by all models: there may be thousands.
    if path == MANIFEST:
        return None
    if WHOLE_REPOSITORY in models:
        return WHOLE_REPOSITORY
    end = path.find("/")
    while end >= 0 and path[:end] not in models:
        end = path.find("/", end + 1)
    return path[:end] if end >= 0 else None
