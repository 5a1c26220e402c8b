"""Where commands about placement look: at a live cluster, or at a snapshot file."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

from kilonova.cli.failure import CommandFailed
from kilonova.cli.options import default_data
from kilonova.cli.reasons import explained
from kilonova.cli.schedulerconfig import read_scheduler_configuration
from kilonova.kube import connect
from kilonova.kube.kubeconfig import kubeconfig_files
from kilonova.local.folder import Folder
from kilonova.scheduler.capturing import Captured, capture
from kilonova.scheduler.files import UnreadableFile, load
from kilonova.scheduler.picture import Picture
from kilonova.scheduler.scheduler import scoring_of
from kilonova.scheduler.settings import Settings

_RIGHTS = "; whoever looks must be able to list nodes, pods, podgangs and queues"


def picture_from(
    snapshot: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    data: Path | None,
    config: Path | None = None,
) -> Picture:
    """A picture from a snapshot file, if one is named, else of the cluster that is meant."""
    if snapshot is None:
        return captured_from(kubeconfig, context, data, config).picture
    if kubeconfig is not None or context is not None:
        raise CommandFailed("--snapshot names a file, and --kubeconfig a cluster: give one of them")
    picture = picture_in(snapshot)
    if config is None:
        return picture
    settings = settings_in(config)
    return picture.by_rules(settings.policy, scoring_of(settings.weights))


def settings_in(config: Path | None) -> Settings:
    """How the scheduler decides by a file, or usually."""
    if config is None:
        return Settings()
    return read_scheduler_configuration(config.expanduser()).settings()


def picture_in(path: Path) -> Picture:
    """The picture in a snapshot file."""
    try:
        return load(path.expanduser())
    except UnreadableFile as error:
        raise CommandFailed(str(error)) from error
    except OSError as error:
        raise CommandFailed(f"{path} can not be read: {error.strerror}") from error


def captured_from(
    kubeconfig: Path | None, context: str | None, data: Path | None, config: Path | None = None
) -> Captured:
    """A picture of the cluster that is meant."""
    settings = settings_in(config)
    return asyncio.run(_capture(cluster_meant(kubeconfig, context, data), context, settings))


def cluster_meant(
    kubeconfig: Path | None,
    context: str | None,
    data: Path | None,
    environment: Mapping[str, str] = os.environ,
) -> Path | None:
    """The kubeconfig to use; None is what kubectl would use.

    That of --kubeconfig, else of the cluster on --data, else as kubectl finds it, else of the
    cluster that `kilonova up` runs on the usual folder.
    """
    if kubeconfig is not None:
        return kubeconfig
    if data is not None:
        folder = Folder(data.expanduser().absolute())
        if not folder.is_taken():
            raise CommandFailed(
                f"nothing runs on {data}: start it with `kilonova up --data {data}`"
            )
        return folder.kubeconfig
    if context is None and not any(file.exists() for file in kubeconfig_files(environment)):
        usual = Folder(default_data(environment))
        if usual.is_taken():
            return usual.kubeconfig
    return None


async def _capture(kubeconfig: Path | None, context: str | None, settings: Settings) -> Captured:
    with explained("look", _RIGHTS):
        async with connect(kubeconfig, context) as client:
            return await capture(client, settings)
