"""What `kilonova serve -f` does."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import typer

from kilonova.api.durations import parse_duration
from kilonova.api.serving import InferenceService
from kilonova.component.command.cluster_selection import resolve_kubeconfig, resolve_namespace
from kilonova.component.failure import CommandFailed, WrongUsage
from kilonova.kube import Client
from kilonova.serving.commands.apply.client_examples import describe_ready_service
from kilonova.serving.commands.apply.manifests import ServeManifests, read_manifests
from kilonova.serving.commands.apply.rollout import (
    apply_objects,
    format_objects,
    wait_until_ready,
)
from kilonova.serving.commands.cluster_access import ServiceCluster


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOptions:
    """The flags."""

    name: str | None = None
    output: Literal["yaml", "json"] | None = None
    wait: bool = True
    timeout: str = "10m"
    dry_run: bool = False


def apply_files(
    files: Sequence[str],
    options: ApplyOptions,
    namespace: str | None,
    kubeconfig: Path | None,
    context: str | None,
    data: Path | None,
) -> None:
    """Apply files, wait, and print addresses."""
    try:
        timeout = parse_duration(options.timeout)
    except ValueError:
        raise WrongUsage(f"--timeout {options.timeout}: write a duration: 30s, 10m") from None
    if options.output is not None:
        space = namespace or _find_namespace(kubeconfig, context, data)
        manifests = read_manifests(files, space, options.name)
        _print_warnings(manifests)
        typer.echo(format_objects(manifests.objects, options.output))
        return
    cluster = ServiceCluster(kubeconfig, context, data, namespace)
    manifests = read_manifests(files, cluster.namespace, options.name)
    _print_warnings(manifests)

    async def run(client: Client) -> list[InferenceService]:
        for line in await apply_objects(client, manifests, dry_run=options.dry_run):
            _print_progress(line)
        if options.dry_run or not options.wait:
            return []
        return await wait_until_ready(client, manifests.services, timeout, _print_progress)

    for service in cluster.run(run):
        typer.echo("\n".join(describe_ready_service(service)))


def _find_namespace(kubeconfig: Path | None, context: str | None, data: Path | None) -> str:
    """That of the context, if there is a cluster: objects can be printed without one."""
    try:
        return resolve_namespace(None, resolve_kubeconfig(kubeconfig, context, data), context)
    except CommandFailed:
        return "default"


def _print_warnings(manifests: ServeManifests) -> None:
    for warning in manifests.warnings:
        _print_progress(f"warning: {warning}")


def _print_progress(line: str) -> None:
    """On standard error: standard output has results alone."""
    typer.echo(line, err=True)
