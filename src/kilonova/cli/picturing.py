"""Where commands about placement look: at a live cluster, or at a snapshot file."""

import asyncio
from pathlib import Path

from kilonova.cli.clusters import cluster_meant
from kilonova.cli.embeddedsettings import SETTINGS
from kilonova.cli.failure import CommandFailed, WrongUsage
from kilonova.cli.reasons import explained
from kilonova.cli.schedulerconfig import read_scheduler_configuration
from kilonova.cli.served import is_embedded
from kilonova.kube import Client, connect
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
    return looked_at(snapshot, kubeconfig, context, data, config).picture


def looked_at(
    snapshot: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    data: Path | None,
    config: Path | None = None,
) -> Captured:
    """The same with the objects behind the picture, which a snapshot file does not hold."""
    if snapshot is None:
        return captured_from(kubeconfig, context, data, config)
    if kubeconfig is not None or context is not None:
        raise WrongUsage("--snapshot names a file, and --kubeconfig a cluster: give one of them")
    picture = picture_in(snapshot)
    if config is None:
        return Captured(picture, ())
    settings = settings_in(config)
    return Captured(picture.by_rules(settings.policy, scoring_of(settings.weights)), ())


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
    settings = None if config is None else settings_in(config)
    return asyncio.run(_capture(cluster_meant(kubeconfig, context, data), context, settings))


async def _capture(
    kubeconfig: Path | None, context: str | None, settings: Settings | None
) -> Captured:
    with explained("look", _RIGHTS):
        async with connect(kubeconfig, context) as client:
            return await capture(client, settings or await usual_settings(client))


async def usual_settings(client: Client) -> Settings:
    """How the scheduler of a cluster decides that nobody configured."""
    return SETTINGS if await is_embedded(client) else Settings()
