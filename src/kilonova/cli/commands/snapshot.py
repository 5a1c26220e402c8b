"""`kilonova snapshot`: save the scheduler's input to a file, show it, and replay it."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from kilonova.component.command.flags import Config, Context, Data, Kubeconfig, Output
from kilonova.component.failure import CommandFailed

app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode=None)

_File = Annotated[Path, typer.Argument(metavar="FILE", help="Snapshot file.", dir_okay=False)]


@app.callback()
def snapshot() -> None:
    """Save, show and replay snapshots of the scheduler's input.

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
            help="Output file; compressed if it ends in .gz.  [default: snapshot-TIME.json.gz]",
            dir_okay=False,
        ),
    ] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    data: Data = None,
    config: Config = None,
) -> None:
    """Save nodes, pods, gangs and queues of a cluster as the scheduler sees them.

    The snapshot is read from the API. State in the memory of a running scheduler is not included:
    pods that are placed but not bound yet are pending in the snapshot, and the usage history of
    queues is unknown.

    \b
    Examples:
      kilonova snapshot save
      kilonova snapshot save monday.json.gz --context production
      kilonova snapshot save /tmp/try.json --data ./try
    """
    from kilonova.component.command.output.formats import pluralize
    from kilonova.scheduler.library.snapshots.file import save_snapshot_file as save_file
    from kilonova.scheduler.library.summary import summarize_snapshot
    from kilonova.scheduler.snapshot_source import capture_cluster

    path = (file or Path(f"snapshot-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json.gz")).expanduser()
    captured = capture_cluster(kubeconfig, context, data, config)
    try:
        save_file(captured.cluster_snapshot, path)
    except OSError as error:
        raise CommandFailed(f"{path} cannot be written: {error.strerror}") from error
    for kind in captured.unknown_kinds:
        typer.echo(f"kilonova: the cluster has no {kind}: run `kilonova install`", err=True)
    saved = captured.cluster_snapshot
    typer.echo(
        f"{path}: {pluralize(len(saved.nodes), 'node')}, "
        f"{pluralize(summarize_snapshot(saved).pods, 'pod')} placed, "
        f"{pluralize(len(saved.pending_gangs), 'gang')} pending"
    )


@app.command()
def show(file: _File, output: Output = "table") -> None:
    """Show a snapshot: free and used GPUs, fragmentation, queues, pending gangs.

    \b
    Examples:
      kilonova snapshot show monday.json.gz
      kilonova snapshot show monday.json.gz -o json
    """
    from kilonova.cli.snapshot.summary_text import format_snapshot
    from kilonova.component.command.output.formats import encode_as
    from kilonova.scheduler.library.queue_views import compute_queue_views
    from kilonova.scheduler.library.summary import summarize_snapshot
    from kilonova.scheduler.snapshot_source import read_snapshot_file

    cluster_snapshot = read_snapshot_file(file)
    summary, queues = summarize_snapshot(cluster_snapshot), compute_queue_views(cluster_snapshot)
    if output == "table":
        typer.echo(format_snapshot(summary, queues))
    else:
        typer.echo(encode_as({"summary": summary, "queues": queues}, output))


@app.command()
def replay(
    file: _File,
    policy: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="SchedulerConfiguration to use instead of the policy in the snapshot.",
            dir_okay=False,
        ),
    ] = None,
    output: Output = "table",
) -> None:
    """Schedule the pending gangs of a snapshot. The result is the same on any machine.

    \b
    Examples:
      kilonova snapshot replay monday.json.gz
      kilonova snapshot replay monday.json.gz -o json > decided.json
      kilonova snapshot replay monday.json.gz --policy no-evictions.yaml
    """
    from kilonova.cli.plan.decision_text import format_decisions
    from kilonova.component.command.output.formats import encode_as
    from kilonova.scheduler.library.decisions import replay_snapshot
    from kilonova.scheduler.snapshot_source import load_snapshot

    cluster_snapshot = load_snapshot(file, None, None, None, policy)
    try:
        decisions = replay_snapshot(cluster_snapshot)
    except ValueError as error:
        raise CommandFailed(f"{policy or file}: {error}") from error
    typer.echo(format_decisions(decisions) if output == "table" else encode_as(decisions, output))
