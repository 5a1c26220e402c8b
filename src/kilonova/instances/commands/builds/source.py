"""Builds for commands: loaded by id, and completed."""

from typing import TYPE_CHECKING, Annotated

import typer

from kilonova.component.failure import CommandFailed, WrongUsage
from kilonova.instances.artifact_sources import BUILDS_VARIABLE

if TYPE_CHECKING:
    from kilonova.artifacts.builds import Build

_MAX_NAMES = 10
_COMPLETION_SECONDS = 2.0

Builds = Annotated[
    str | None,
    typer.Option(
        "--builds",
        metavar="URL",
        envvar=BUILDS_VARIABLE,
        help="Where builds are: a directory, s3://BUCKET/PREFIX or oci://REGISTRY/REPOSITORY.",
    ),
]


def complete_builds(context: typer.Context, incomplete: str) -> list[str]:
    """Ids of builds with this prefix; none if the source does not answer soon."""
    import asyncio
    import os

    from kilonova.artifacts.builds import BuildError, open_build_source

    url = context.params.get("builds") or os.environ.get(BUILDS_VARIABLE)
    if not url:
        return []

    async def list_builds() -> tuple[str, ...]:
        async with asyncio.timeout(_COMPLETION_SECONDS), open_build_source(str(url)) as source:
            return await source.list()

    try:
        return [each for each in asyncio.run(list_builds()) if each.startswith(incomplete)]
    except (BuildError, TimeoutError):
        return []


def load_build(build_id: str, url: str | None) -> "Build":
    """The build of an id; `CommandFailed` says what is wrong with it, and which there are."""
    import asyncio

    from kilonova.artifacts.builds import BuildError, BuildNotFound, open_build_source

    if not url:
        raise WrongUsage(f"no source of builds: give --builds, or set {BUILDS_VARIABLE}")

    async def load() -> "Build":
        async with open_build_source(url) as source:
            try:
                return await source.load(build_id)
            except BuildNotFound as error:
                raise CommandFailed(f"{error}{_format_known(await source.list())}") from error

    try:
        return asyncio.run(load())
    except BuildError as error:
        raise CommandFailed(str(error)) from error


def _format_known(builds: tuple[str, ...]) -> str:
    more = f" and {len(builds) - _MAX_NAMES} more" if len(builds) > _MAX_NAMES else ""
    return f": known are {', '.join(builds[:_MAX_NAMES])}{more}" if builds else ": it has no builds"
