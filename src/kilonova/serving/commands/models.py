"""`kilonova models`: model repositories."""

from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from kilonova.api.serving.repositories import RepositoryLayout
from kilonova.component.command.flags import Output
from kilonova.component.failure import FAILED, CommandFailed, WrongUsage

if TYPE_CHECKING:
    from kilonova.serving.repositories.download import Pulled

T = TypeVar("T")

app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode=None)

_HEADER = ("MODEL", "FILES", "SIZE")

Url = Annotated[
    str,
    typer.Argument(
        metavar="URL",
        help="A directory, s3://BUCKET/PREFIX or oci://REGISTRY/REPOSITORY:TAG.",
    ),
]
Folder = Annotated[
    Path,
    typer.Argument(metavar="DIR", help="The directory with the models.", file_okay=False),
]
Layout = Annotated[
    RepositoryLayout,
    typer.Option(
        help="Triton: a folder for each model; HuggingFace: a snapshot for each model, or one.",
    ),
]
Checksum = Annotated[
    str,
    typer.Option(
        metavar="DIGEST",
        help="The digest that the manifest must have: sha256:….",
    ),
]


@app.callback()
def models() -> None:
    """Publish, download and verify model repositories.

    The manifest of a repository is its file SHA256SUMS; an OCI artifact has one of its own. S3 is
    logged in to by the variables and files of AWS, registries as docker does (`docker login`, or
    REGISTRY_AUTH=USER:PASSWORD).

    \b
    Examples:
      kilonova models push ./models s3://bucket/models/v7
      kilonova models pull s3://bucket/models/v7 /models --checksum sha256:…
      kilonova models verify /models
    """


@app.command("pull")
def pull(
    url: Url,
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Where to; it is created.", file_okay=False)
    ],
    layout: Layout = "Triton",
    checksum: Checksum = "",
    max_size: Annotated[
        str, typer.Option(metavar="SIZE", help="Refuse a larger repository: 40Gi.")
    ] = "",
    concurrency: Annotated[
        int, typer.Option(metavar="N", help="Files that are fetched at the same time.", min=1)
    ] = 4,
) -> None:
    """Download a repository into a directory.

    Every file is verified. What was fetched is kept when the download is interrupted, and not
    fetched again by the next one. A model becomes visible when all its files are complete, as a
    whole; files that a former download left and that the repository no longer has are removed.

    \b
    Examples:
      kilonova models pull s3://bucket/models/v7 /models
      kilonova models pull oci://registry.example.com/models/llm:v7 ./llm --layout HuggingFace
    """
    from kilonova.component.command.output.formats import pluralize
    from kilonova.serving.repositories.download import Progress, PullOptions, pull_repository
    from kilonova.serving.repositories.progress import format_bytes, report_progress
    from kilonova.serving.repositories.sources import open_source

    options = PullOptions(layout, checksum, _parse_size(max_size), concurrency)

    async def work() -> "Pulled":
        progress = Progress()
        async with open_source(url) as source, report_progress(progress):
            return await pull_repository(source, folder, options, progress)

    done = _run(work())
    contents, kept = done.contents, done.progress.kept_files
    typer.echo(
        f"{pluralize(len(contents.models), 'model')}, "
        f"{pluralize(len(contents.files), 'file')} ({kept} kept), {format_bytes(contents.size)}, "
        f"manifest {contents.digest or 'none'}"
    )
    if contents.left_out:
        text = f"{pluralize(contents.left_out, 'file')} left out, which the manifest does not list"
        typer.echo(text, err=True)


@app.command("push")
def push(folder: Folder, url: Url) -> None:
    """Publish a directory with its manifest, and print the digest of that: `checksum` of an
    InferenceService.

    Files that are there already are not sent again.

    \b
    Examples:
      kilonova models push ./models s3://bucket/models/v7
      kilonova models push ./llm oci://registry.example.com/models/llm:v7
    """
    from kilonova.serving.repositories.upload import push_repository

    typer.echo(_run(push_repository(folder, url)))


@app.command("manifest")
def manifest(folder: Folder) -> None:
    """Write the manifest SHA256SUMS of a directory into it, and print its digest.

    \b
    Examples:
      kilonova models manifest /srv/models
    """
    from kilonova.serving.repositories.upload import write_manifest

    typer.echo(_run(write_manifest(folder)))


@app.command("verify")
def verify(folder: Folder, checksum: Checksum = "") -> None:
    """Verify the files of a directory by its manifest, or as they were downloaded.

    Every wrong file is named, and the exit code is 1.

    \b
    Examples:
      kilonova models verify /models
    """
    from kilonova.component.command.output.formats import pluralize
    from kilonova.serving.repositories.verification import verify_folder

    found = _run(verify_folder(folder, checksum))
    for each in found.problems:
        typer.echo(f"kilonova: {each}", err=True)
    if found.problems:
        raise typer.Exit(FAILED)
    typer.echo(f"{pluralize(found.files, 'file')} ok, manifest {found.digest or 'none'}")


@app.command("list")
def list_models(url: Url, layout: Layout = "Triton", output: Output = "table") -> None:
    """List the models of a repository.

    \b
    Examples:
      kilonova models list s3://bucket/models/v7
      kilonova models list oci://registry.example.com/models/llm:v7 --layout HuggingFace -o json
    """
    from kilonova.component.command.output.formats import encode_as, format_table
    from kilonova.serving.repositories.contents import Contents, read_contents
    from kilonova.serving.repositories.progress import format_bytes
    from kilonova.serving.repositories.sources import open_source

    async def work() -> Contents:
        async with open_source(url) as source:
            return await read_contents(source, layout)

    found = _run(work()).list_models()
    if output != "table":
        typer.echo(encode_as(found, output))
        return
    rows = [(each.name, str(each.files), format_bytes(each.size)) for each in found]
    typer.echo(format_table(_HEADER, rows))


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end; `CommandFailed` with what is wrong."""
    import asyncio

    from kilonova.serving.repositories.errors import RepositoryError

    try:
        return asyncio.run(work)
    except RepositoryError as error:
        raise CommandFailed(str(error)) from error


def _parse_size(text: str) -> int | None:
    from kilonova.api.quantity import QuantityError, quantity_from_json

    if not text:
        return None
    try:
        return quantity_from_json(text).value
    except QuantityError as error:
        raise WrongUsage(f"--max-size {text!r}: {error}: use a quantity such as 40Gi") from None
