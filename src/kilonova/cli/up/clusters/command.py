"""What `kilonova up` and `kilonova status` do and print for several clusters."""

from pathlib import Path

import typer

from kilonova.cli.up.clusters.directory import ClustersDirectory
from kilonova.cli.up.options import UpOptions
from kilonova.component.command.output.format_names import OutputFormat
from kilonova.component.failure import NOT_RUNNING, CommandFailed


def start_several(options: UpOptions, count: int | None, *, detach: bool, wait: bool) -> None:
    """Start the clusters; without `detach`, run them until a signal."""
    from kilonova.cli.up.clusters.start import StartedClusters, run_clusters, start_clusters
    from kilonova.cli.up.clusters.welcome import format_started

    if count is None:
        count = len(ClustersDirectory.read(options.data).clusters)
    directory = ClustersDirectory.create(options.data, count, options.port)

    def report(started: StartedClusters) -> None:
        typer.echo(format_started(started, detached=detach))

    if detach:
        report(start_clusters(options, directory, wait=wait))
    else:
        run_clusters(options, directory, report)


def print_status_of_several(data: Path, output: OutputFormat) -> None:
    """Print the state of all clusters of a directory, and exit as `kilonova status` does."""
    from kilonova.cli.up.clusters.status import find_clusters_status, format_clusters_status

    status, problems = find_clusters_status(ClustersDirectory.read(data))
    typer.echo(format_clusters_status(status, output))
    if problems:
        raise CommandFailed("; ".join(problems))
    if not status.running:
        raise typer.Exit(NOT_RUNNING)
