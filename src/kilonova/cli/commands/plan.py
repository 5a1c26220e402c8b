"""`kilonova plan`: where pods of manifests would be placed, and which pods they would preempt."""

from pathlib import Path
from typing import Annotated

import typer

from kilonova.component.command.flags import (
    Config,
    Context,
    Data,
    Kubeconfig,
    Namespace,
    Output,
    Snapshot,
)


def plan(
    files: Annotated[
        list[Path] | None,
        typer.Option(
            "--filename",
            "-f",
            metavar="FILE",
            help="Manifests, '-' for standard input; may be repeated.",
        ),
    ] = None,
    moves: Annotated[
        bool, typer.Option("--moves", help="Show the pods that consolidation would move now.")
    ] = False,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    data: Data = None,
    snapshot: Snapshot = None,
    config: Config = None,
    output: Output = "table",
) -> None:
    """Show where pods would be placed if manifests were applied now. Nothing is written.

    Pods, Deployments, ReplicaSets, StatefulSets, Jobs, PodGangs, PodGroups and PodCliqueSets are
    planned, together with Queues in the same manifests; other kinds are skipped. They are scheduled
    in order with all gangs that are pending already. Objects without a namespace use that of -n.
    Volumes and device claims are ignored.

    \b
    Examples:
      kilonova plan -f trainer.yaml
      kilonova plan -f queue.yaml -f llama.yaml --context production -n research
      kilonova plan -f llama.yaml --snapshot monday.json.gz -o json
      helm template ./chart | kilonova plan -f -
      kilonova plan --moves --config scheduler.yaml
    """
    from kilonova.cli.plan.decision_text import format_decisions
    from kilonova.cli.plan.moves_text import format_moves
    from kilonova.cli.plan.planner import plan_manifests
    from kilonova.component.command.output.formats import encode_as
    from kilonova.component.failure import WrongUsage
    from kilonova.scheduler.library.consolidation_proposal import propose_consolidation
    from kilonova.scheduler.snapshot_source import load_snapshot, read_scheduler_settings

    if moves == bool(files):
        raise WrongUsage("give either --filename or --moves")
    if not files:
        cluster_snapshot = load_snapshot(snapshot, kubeconfig, context, data, config)
        limits = read_scheduler_settings(config).consolidation
        proposed = propose_consolidation(cluster_snapshot, limits)
        typer.echo(format_moves(proposed) if output == "table" else encode_as(proposed, output))
        return
    planned = plan_manifests(files, snapshot, kubeconfig, context, data, config, namespace)
    for note in planned.notes:
        typer.echo(f"kilonova: {note}", err=True)
    text = format_decisions(planned.decisions)
    typer.echo(text if output == "table" else encode_as(planned.decisions, output))
