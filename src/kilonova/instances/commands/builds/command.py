"""`kilonova builds`: the builds of a source."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from kilonova.component.command.flags import Output
from kilonova.component.failure import FAILED, CommandFailed, WrongUsage
from kilonova.instances.artifact_sources import BUILDS_VARIABLE
from kilonova.instances.commands.builds.source import Builds, load_build

if TYPE_CHECKING:
    from kilonova.artifacts.builds import Build, BuildSource

T = TypeVar("T")

app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode=None)

_HEADER = ("ID", "MODEL", "AGENTS", "ACCELERATORS", "MEMORY", "TOPOLOGY", "PARTITIONS")


@app.callback()
def builds() -> None:
    """Show and publish builds, which specify what instances need.

    Checksums are always verified. Registries are logged in to as docker does (`docker login`, or
    REGISTRY_AUTH=USER:PASSWORD), S3 by the variables and files of AWS.

    \b
    Examples:
      kilonova builds list --builds s3://models/builds
      kilonova builds show llama32-90b-v7 --builds oci://registry.example.com/builds -o json
      kilonova builds publish ./llama32-90b-v7.json --builds s3://models/builds
    """


@app.command("list")
def list_builds(builds: Builds = None, output: Output = "table") -> None:
    """List the builds of a source; a broken one is reported, and the exit code is 1.

    \b
    Examples:
      kilonova builds list --builds ./builds
      KILONOVA_BUILDS=oci://registry.example.com/builds kilonova builds list -o json
    """
    from kilonova.artifacts.builds import BuildError

    async def load(opened: "BuildSource") -> tuple[list["Build"], list[BuildError]]:
        found: list[Build] = []
        problems: list[BuildError] = []
        for each in await opened.list():
            try:
                found.append(await opened.load(each))
            except BuildError as error:
                problems.append(error)
        return found, problems

    found, problems = _run(builds, load)
    _print(found, output)
    for each in problems:
        typer.echo(f"kilonova: {each}", err=True)
    if problems:
        raise typer.Exit(FAILED)


@app.command("show")
def show_build(
    build: Annotated[str, typer.Argument(metavar="ID", help="The id of the build.")],
    builds: Builds = None,
    output: Output = "table",
) -> None:
    """Show a build.

    \b
    Examples:
      kilonova builds show llama32-90b-v7 --builds ./builds -o yaml
    """
    found = load_build(build, builds)
    if output == "table":
        _print([found], output)
    else:
        from kilonova.component.command.output.formats import encode_as

        typer.echo(encode_as(found, output))


@app.command("publish")
def publish_build(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The JSON file of the build.")],
    builds: Builds = None,
) -> None:
    """Validate a build, and publish it with its checksum.

    A build is immutable: publishing it again changes nothing, and another one of its id is refused.

    \b
    Examples:
      kilonova builds publish ./tiny-v1.json --builds oci://registry.example.com/builds
    """
    from kilonova.artifacts.builds import BuildError, parse_build

    try:
        build = parse_build(file.read_bytes(), str(file))
    except OSError as error:
        raise CommandFailed(f"{file} cannot be read: {error.strerror}") from error
    except BuildError as error:
        raise CommandFailed(str(error)) from error

    def save(opened: "BuildSource") -> Awaitable[str]:
        return opened.save(build)

    typer.echo(_run(builds, save))


def _run(url: str | None, work: "Callable[[BuildSource], Awaitable[T]]") -> T:
    """Open a source and work with it; `CommandFailed` if that fails."""
    import asyncio

    from kilonova.artifacts.builds import BuildError, open_build_source

    if not url:
        raise WrongUsage(f"no source of builds: give --builds, or set {BUILDS_VARIABLE}")

    async def run() -> T:
        async with open_build_source(url) as opened:
            return await work(opened)

    try:
        return asyncio.run(run())
    except BuildError as error:
        raise CommandFailed(str(error)) from error


def _print(found: "list[Build]", output: Output) -> None:
    from kilonova.component.command.output.formats import encode_as, format_table

    if output != "table":
        typer.echo(encode_as(found, output))
    elif found:
        typer.echo(format_table(_HEADER, [_cells(each) for each in found]))
    else:
        typer.echo("no builds", err=True)


def _cells(build: "Build") -> tuple[str, ...]:
    accelerator = build.accelerator
    return (
        build.id,
        build.model,
        str(build.agents),
        f"{accelerator.count} {accelerator.resource} each" if accelerator.count else "-",
        str(accelerator.memory or "-"),
        build.topology.required or build.topology.preferred or "-",
        str(len(build.partitions) or "-"),
    )
