"""`kilonova fleet status`: the deployments of a fleet, cluster by cluster."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from kilonova.component.command.flags import (
    AllNamespaces,
    Context,
    Data,
    Kubeconfig,
    Namespace,
    Output,
)
from kilonova.fleet.commands.name_completion import complete_deployments

if TYPE_CHECKING:
    from kilonova.api.inference_engine import Deployment

_HEADER = ("CLUSTER", "DESIRED", "OBSERVED", "READY", "RELEASE", "REACHABLE", "LAST SEEN", "REASON")


def status(
    deployments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[DEPLOYMENT]...",
            help="Deployments; all without one.",
            autocompletion=complete_deployments,
        ),
    ] = None,
    namespace: Namespace = None,
    all_namespaces: AllNamespaces = False,
    output: Output = "table",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    data: Data = None,
) -> None:
    """Show deployments: instances by cluster, waves of the rollout, and what is wrong.

    \b
    Examples:
      kilonova fleet status
      kilonova fleet status llama -n inference-engine
      kilonova fleet status -A -o json
    """
    from kilonova.component.command.cluster_selection import resolve_kubeconfig, resolve_namespace
    from kilonova.component.command.output.formats import encode_as
    from kilonova.component.failure import CommandFailed
    from kilonova.fleet.commands.hub_access import list_deployments, run_on_hub

    resolved = resolve_kubeconfig(kubeconfig, context, data)
    space = None if all_namespaces else resolve_namespace(namespace, resolved, context)
    found = run_on_hub(resolved, context, lambda client: list_deployments(client, space))
    for name in deployments or ():
        if name not in {each.metadata.name for each in found}:
            where = "any namespace" if space is None else f"namespace {space}"
            raise CommandFailed(f"Deployment {name} of the fleet does not exist in {where}")
    if deployments:
        found = [each for each in found if each.metadata.name in deployments]
    if output != "table":
        typer.echo(encode_as([msgspec.to_builtins(each) for each in found], output))
    elif not found:
        where = "any namespace" if space is None else f"namespace {space}"
        typer.echo(f"no deployments of the fleet in {where}", err=True)
    else:
        typer.echo("\n\n".join("\n".join(format_status(each)) for each in found))


def format_status(deployment: "Deployment") -> Iterator[str]:
    """The lines about one deployment."""
    from datetime import UTC, datetime

    from kilonova.api.times import human_age
    from kilonova.component.command.output.formats import format_table

    metadata, spec, state = deployment.metadata, deployment.spec, deployment.status
    yield (
        f"{metadata.namespace}/{metadata.name}: release {state.release or spec.release}, "
        f"{state.ready} of {state.desired} instances ready"
    )
    for each in state.conditions:
        if each.message and (each.status != "True") is (each.type != "Paused"):
            yield f"  {each.type}={each.status} {each.reason}: {each.message}"
    for wave in state.waves:
        if len(state.waves) > 1 or wave.phase != "Done":
            where = ", ".join(wave.clusters) or "no clusters"
            message = f": {wave.message}" if wave.message else ""
            yield f"  wave {wave.name} ({where}) {wave.phase}{message}"
    now = datetime.now(UTC)
    rows = [
        (
            each.cluster,
            str(each.desired),
            str(each.observed),
            str(each.ready),
            each.observed_release or each.release or "-",
            "yes" if each.reachable else "no",
            human_age(each.last_seen, now),
            each.reason or "-",
        )
        for each in state.clusters
    ]
    if rows:
        yield format_table(_HEADER, rows)
