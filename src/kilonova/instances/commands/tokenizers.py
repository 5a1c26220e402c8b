"""`kilonova tokenizers`: the tokenizers of a store."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from kilonova.artifacts import DEFAULT_TOKENIZER_STORE
from kilonova.component.command.flags import Output
from kilonova.component.failure import FAILED
from kilonova.instances.artifact_sources import TOKENIZERS_VARIABLE

if TYPE_CHECKING:
    from kilonova.artifacts.tokenizers import CacheInfo, TokenizerInfo, TokenizerStore

T = TypeVar("T")

app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode=None)

Store = Annotated[
    str,
    typer.Option(
        "--store",
        metavar="PLACE",
        envvar=TOKENIZERS_VARIABLE,
        help="A directory, s3://BUCKET/PREFIX or oci://REGISTRY/REPOSITORY.",
    ),
]
Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="[NAME]...", help="ORG/MODEL or org_model.  [default: all]"),
]
_HEADER = ("NAME", "FILES", "SIZE", "REVISION", "SOURCE")
_REVISION_DIGITS = 19


@app.callback()
def tokenizers() -> None:
    """Add, verify and copy the tokenizers that engines read.

    A tokenizer has a folder in the store, named org_model in lower case, with its files, their
    SHA-256 in tokenizer_cache_info.json, and test cases.

    \b
    Examples:
      kilonova tokenizers add ./Llama-3.2-90B --name meta-llama/Llama-3.2-90B
      kilonova tokenizers verify
      kilonova tokenizers sync s3://models/tokenizers /nfs/supernova/tokenizers
    """


@app.command("add")
def add(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A folder or tokenizer.json of Hugging Face, s3://BUCKET/PREFIX, or "
            "oci://REGISTRY/REPOSITORY:TAG.",
        ),
    ],
    name: Annotated[
        str,
        typer.Option(
            metavar="ORG/MODEL",
            help="The canonical name.  [default: that of Hugging Face's cache, or of another "
            "store]",
        ),
    ] = "",
    text: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="Text of a test case; may be repeated."),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace another tokenizer of this name.")
    ] = False,
    store: Store = DEFAULT_TOKENIZER_STORE,
) -> None:
    """Add a tokenizer, with the checksums of its files and test cases.

    The weights of a model beside it are not copied. The tokenizer is loaded, which needs
    pip install 'kilonova[tokenizers]'.

    \b
    Examples:
      kilonova tokenizers add ~/models/Llama-3.2-90B --name meta-llama/Llama-3.2-90B
      kilonova tokenizers add oci://registry.example.com/tokenizers:acme_tiny --store ./tokenizers
      kilonova tokenizers add ./tiny --name acme/tiny --text 'Hello!' --text 'def add(a, b):'
    """
    from kilonova.artifacts.tokenizers import read_source
    from kilonova.component.command.output.formats import pluralize

    async def work(opened: "TokenizerStore") -> "CacheInfo":
        found = await read_source(source)
        return await opened.add(found, name=name, texts=tuple(text or ()), replace=replace)

    info = _run(store, work)
    typer.echo(f"{info.name}  {pluralize(len(info.files), 'file')}  {info.revision}")


@app.command("list")
def list_tokenizers(output: Output = "table", store: Store = DEFAULT_TOKENIZER_STORE) -> None:
    """List the tokenizers of a store; a broken one is reported, and the exit code is 1.

    \b
    Examples:
      kilonova tokenizers list
      kilonova tokenizers list --store ./tokenizers -o json
    """
    from kilonova.component.command.output.formats import encode_as, format_table

    found = _run(store, lambda opened: opened.list())
    good = [each for each in found if not each.problem]
    if output != "table":
        typer.echo(encode_as(found, output))
    elif good:
        typer.echo(format_table(_HEADER, [_cells(each) for each in good]))
    elif not found:
        typer.echo("no tokenizers", err=True)
    _report([each.problem for each in found if each.problem])


@app.command("verify")
def verify(
    names: Names = None,
    runtimes: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Verify those that an engine's configuration names (runtimes.NAME.hf_model_path).",
            dir_okay=False,
        ),
    ] = None,
    store: Store = DEFAULT_TOKENIZER_STORE,
) -> None:
    """Verify tokenizers: their checksums, that they load, and their test cases.

    The exit code is 1 if one is broken; the others are verified nevertheless.

    \b
    Examples:
      kilonova tokenizers verify
      kilonova tokenizers verify meta-llama/Llama-3.2-90B
      kilonova tokenizers verify --runtimes engine.yaml
    """
    from kilonova.artifacts.tokenizers import TokenizerError, read_runtimes
    from kilonova.component.command.output.formats import pluralize

    async def work(opened: "TokenizerStore") -> list[str]:
        wanted = [*(names or ()), *(read_runtimes(runtimes).values() if runtimes else ())]
        everything = not names and runtimes is None
        problems: list[str] = []
        for each in await opened.place.list() if everything else dict.fromkeys(wanted):
            try:
                count = await opened.verify(each)
            except TokenizerError as error:
                problems.append(str(error))
            else:
                typer.echo(f"{each}  ok  {pluralize(count, 'test case')}")
        return problems

    _report(_run(store, work))


@app.command("sync")
def sync(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The store that is copied from.")],
    target: Annotated[str, typer.Argument(metavar="DEST", help="The store that is copied to.")],
    names: Names = None,
) -> None:
    """Copy tokenizers to another store, where they are missing or others.

    Nothing is deleted there. One whose checksums do not match is not copied; the exit code is 1.

    \b
    Examples:
      kilonova tokenizers sync s3://models/tokenizers /nfs/supernova/tokenizers
      kilonova tokenizers sync ./tokenizers oci://registry.example.com/tokenizers acme/tiny
    """
    from kilonova.artifacts.tokenizers import (
        TokenizerError,
        open_tokenizer_store,
        sync_tokenizer,
    )

    async def work(opened: "TokenizerStore") -> list[str]:
        problems: list[str] = []
        async with open_tokenizer_store(target) as other:
            for each in names or await opened.place.list():
                try:
                    result = await sync_tokenizer(opened, other, each)
                except TokenizerError as error:
                    problems.append(str(error))
                else:
                    typer.echo(f"{each}  {result.lower()}")
        return problems

    _report(_run(source, work))


def _run(store: str, work: "Callable[[TokenizerStore], Awaitable[T]]") -> T:
    """Open a store and work with it; `CommandFailed` if that fails."""
    import asyncio

    from kilonova.artifacts.tokenizers import TokenizerError, open_tokenizer_store
    from kilonova.component.failure import CommandFailed

    async def run() -> T:
        async with open_tokenizer_store(store) as opened:
            return await work(opened)

    try:
        return asyncio.run(run())
    except TokenizerError as error:
        raise CommandFailed(str(error)) from error


def _report(problems: list[str]) -> None:
    for each in problems:
        typer.echo(f"kilonova: {each}", err=True)
    if problems:
        raise typer.Exit(FAILED)


def _cells(info: "TokenizerInfo") -> tuple[str, ...]:
    return (
        info.name,
        str(len(info.files)),
        f"{info.size / 1e6:.1f} MB",
        info.revision[:_REVISION_DIGITS],
        info.source,
    )
