"""`kilonova plan`: where manifests would go now, and what they would push out."""

from pathlib import Path
from typing import Annotated

import typer

from kilonova.cli.lookoptions import Config, Context, Data, Kubeconfig, Namespace, Output, Snapshot


def plan(
    files: Annotated[
        list[Path] | None,
        typer.Option(
            "--filename",
            "-f",
            metavar="FILE",
            help="Manifests, '-' for standard input; may be given again.",
        ),
    ] = None,
    moves: Annotated[
        bool, typer.Option("--moves", help="Say what would be moved now so that nodes become free.")
    ] = False,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    data: Data = None,
    snapshot: Snapshot = None,
    config: Config = None,
    output: Output = "table",
) -> None:
    """Say where pods would go if manifests were applied now. Nothing is written.

    Pods, Deployments, ReplicaSets, StatefulSets, Jobs, PodGangs, PodGroups and PodCliqueSets are
    planned, with the Queues beside them; what needs no place is passed over. They take their turn
    beside all that waits already. What names no namespace goes to that of -n. Volumes and device
    claims of theirs are not looked at.

    \b
    Examples:
      kilonova plan -f trainer.yaml
      kilonova plan -f queue.yaml -f llama.yaml --context production -n research
      kilonova plan -f llama.yaml --snapshot monday.json.gz -o json
      helm template ./chart | kilonova plan -f -
      kilonova plan --moves --config scheduler.yaml
    """
    from kilonova.cli.decisiontext import decisions_text
    from kilonova.cli.failure import WrongUsage
    from kilonova.cli.movestext import moves_text
    from kilonova.cli.picturing import picture_from, settings_in
    from kilonova.cli.planning import planned
    from kilonova.cli.tables import in_form
    from kilonova.scheduler.proposing import proposed_moves

    if moves == bool(files):
        raise WrongUsage("give manifests with --filename, or --moves: one of them")
    if not files:
        picture = picture_from(snapshot, kubeconfig, context, data, config)
        proposed = proposed_moves(picture, settings_in(config).moves)
        typer.echo(moves_text(proposed) if output == "table" else in_form(proposed, output))
        return
    found = planned(files, snapshot, kubeconfig, context, data, config, namespace)
    for note in found.notes:
        typer.echo(f"kilonova: {note}", err=True)
    text = decisions_text(found.decisions)
    typer.echo(text if output == "table" else in_form(found.decisions, output))
