"""Makes complete files visible: each model as a whole. Blocking."""

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from kilonova.serving.repositories.contents import Contents
from kilonova.serving.repositories.errors import RepositoryError
from kilonova.serving.repositories.layouts import SNAPSHOT_FILE, WHOLE_REPOSITORY, group_by_model
from kilonova.serving.repositories.record import (
    DownloadedFile,
    Record,
    read_record,
    write_record,
)
from kilonova.serving.repositories.staging import Staging


def publish(
    staging: Staging, source: str, contents: Contents, files: Mapping[str, DownloadedFile]
) -> None:
    """Publish a download whose files are all complete, either in the staging folder or already in
    the directory; remove models of the former one that are not part of it."""
    former = read_record(staging.target)
    gone = {*former.models, *former.replaced} - {*contents.models, WHOLE_REPOSITORY}
    record = Record(source, contents.digest, dict(files), contents.models, tuple(sorted(gone)))
    by_model = group_by_model(files, contents.models)
    # Files beside models, or of the one model that is the whole repository.
    loose = [*by_model[None], *by_model.get(WHOLE_REPOSITORY, ())]
    _check_places(staging, contents, loose, {*former.models, *former.replaced})
    # From here on it is known what of the directory is ours, also after a crash.
    write_record(staging.target, record)
    former_by_model = group_by_model(former.files, contents.models)
    for model in contents.models:
        if model != WHOLE_REPOSITORY:
            _publish_model(staging, model, by_model[model], former_by_model[model])
    _publish_files(staging, loose)
    for path in [*gone, *_list_former_files(former, contents, files)]:
        staging.take_away(path)
    write_record(staging.target, Record(source, contents.digest, dict(files), contents.models))
    staging.remove()


def _check_places(
    staging: Staging, contents: Contents, loose: Iterable[str], known: set[str]
) -> None:
    """Refuse to replace a folder that something else put there, or to follow a symbolic link."""
    folders = [each for each in contents.models if each != WHOLE_REPOSITORY]
    for path in (*folders, *loose):
        for place in _list_places(staging.target, path):
            if place.is_symlink():
                problem = "it is a symbolic link, and would lead the download elsewhere"
                raise RepositoryError(str(place), problem, "remove it")
    for folder in folders:
        place = staging.target / folder
        if folder not in known and place.exists():
            problem = "it exists, and no former download made it"
            raise RepositoryError(str(place), problem, "remove it, or pull into another directory")


def _list_places(target: Path, path: str) -> Iterator[Path]:
    """The path and the folders that lead to it, below the directory."""
    place = target
    for part in path.split("/"):
        place = place / part
        yield place


def _publish_model(staging: Staging, model: str, own: list[str], before: list[str]) -> None:
    """Replace the folder of a model, unless all its files are there and no others."""
    fresh = {path for path in own if staging.locate(path).exists()}
    if not fresh and set(before) == set(own) and (staging.target / model).is_dir():
        return
    for path in own:
        if path not in fresh:
            # The same content as before: the new folder shares it with the one it replaces.
            place = staging.locate(path)
            place.parent.mkdir(parents=True, exist_ok=True)
            _share(staging.target / path, place)
    staging.replace(model)


def _share(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)  # a file system without hard links


def _publish_files(staging: Staging, paths: Iterable[str]) -> None:
    """Publish files one by one; the one by which a model is known comes last."""
    for path in sorted(paths, key=lambda each: (each == SNAPSHOT_FILE, each)):
        if staging.locate(path).exists():
            staging.replace(path)


def _list_former_files(
    former: Record, contents: Contents, files: Mapping[str, DownloadedFile]
) -> list[str]:
    """Files of the former download that are beside models, and are not part of this one."""
    models = {*former.models, *contents.models} - {WHOLE_REPOSITORY}
    return [path for path in group_by_model(former.files, models)[None] if path not in files]
