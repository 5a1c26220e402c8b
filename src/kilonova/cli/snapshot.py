"""`kilonova snapshot`: keep what decisions depend on, look at it, decide again."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from kilonova.cli.failure import CommandFailed
from kilonova.cli.lookoptions import Config, Context, Data, Kubeconfig, Output

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

_File = Annotated[Path, typer.Argument(metavar="FILE", help="The snapshot.", dir_okay=False)]


@app.callback()
def snapshot() -> None:
    """Save what a scheduler decides from, and decide again.

    \b
    Example:
      kilonova snapshot save now.json.gz && kilonova snapshot replay now.json.gz
    """


@app.command()
def save(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]",
            help="Where to; packed if the name ends in .gz.  [default: snapshot-TIME.json.gz]",
            dir_okay=False,
        ),
    ] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    data: Data = None,
    config: Config = None,
) -> None:
    """Save nodes, pods, gangs and queues of a cluster as a scheduler reads them.

    Only lists are read. What only the memory of a running scheduler holds is not in it: pods that
    it decided about and has not bound yet still wait in the snapshot, and what queues used in the
    past is not known.

    \b
    Examples:
      kilonova snapshot save
      kilonova snapshot save monday.json.gz --context production
      kilonova snapshot save /tmp/try.json --data ./try
    """
    from kilonova.cli.picturing import captured_from
    from kilonova.cli.tables import counted
    from kilonova.scheduler.files import save as save_file
    from kilonova.scheduler.summary import summary_of

    path = (file or Path(f"snapshot-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json.gz")).expanduser()
    captured = captured_from(kubeconfig, context, data, config)
    try:
        save_file(captured.picture, path)
    except OSError as error:
        raise CommandFailed(f"{path} can not be written: {error.strerror}") from error
    for kind in captured.unknown:
        typer.echo(f"kilonova: the cluster has no {kind}: see `kilonova install`", err=True)
    picture = captured.picture
    typer.echo(
        f"{path}: {counted(len(picture.nodes), 'node')}, "
        f"{counted(summary_of(picture).pods, 'pod')} on them, "
        f"{counted(len(picture.waiting), 'gang')} waiting"
    )


@app.command()
def show(file: _File, output: Output = "table") -> None:
    """Show what is in a snapshot: GPUs free and used, queues, who waits.

    \b
    Examples:
      kilonova snapshot show monday.json.gz
      kilonova snapshot show monday.json.gz -o json
    """
    from kilonova.cli.picturing import picture_in
    from kilonova.cli.snapshottext import shown
    from kilonova.cli.tables import in_form
    from kilonova.scheduler.queueview import queues_in
    from kilonova.scheduler.summary import summary_of

    picture = picture_in(file)
    summary, queues = summary_of(picture), queues_in(picture)
    if output == "table":
        typer.echo(shown(summary, queues))
    else:
        typer.echo(in_form({"summary": summary, "queues": queues}, output))


@app.command()
def replay(
    file: _File,
    policy: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A SchedulerConfiguration to decide by, instead of the rules in the snapshot.",
            dir_okay=False,
        ),
    ] = None,
    output: Output = "table",
) -> None:
    """Decide about all that wait in a snapshot. The answer is the same on any machine.

    \b
    Examples:
      kilonova snapshot replay monday.json.gz
      kilonova snapshot replay monday.json.gz -o json > decided.json
      kilonova snapshot replay monday.json.gz --policy no-evictions.yaml
    """
    from kilonova.cli.decisiontext import decisions_text
    from kilonova.cli.picturing import picture_from
    from kilonova.cli.tables import in_form
    from kilonova.scheduler.decisions import replay as replay_picture

    picture = picture_from(file, None, None, None, policy)
    try:
        decisions = replay_picture(picture)
    except ValueError as error:
        raise CommandFailed(f"{policy or file}: {error}") from error
    typer.echo(decisions_text(decisions) if output == "table" else in_form(decisions, output))
