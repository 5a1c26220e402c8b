"""Stops several clusters at the same time."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kilonova.cli.up.clusters.directory import ClusterEntry, ClustersDirectory
from kilonova.cli.up.down import stop_cluster
from kilonova.component.failure import CommandFailed


def _ignore(text: str) -> None:
    pass


def stop_several(
    data: Path, *, wait: bool, keep_pods: bool, report_progress: Callable[[str], None]
) -> str:
    """Stop all clusters of a directory."""
    directory = ClustersDirectory.read(data)
    running = [each for each in directory.clusters if directory.is_running(each)]
    return stop_clusters(
        directory, running, wait=wait, keep_pods=keep_pods, report_progress=report_progress
    )


def stop_clusters(
    directory: ClustersDirectory,
    clusters: Sequence[ClusterEntry],
    *,
    wait: bool = True,
    keep_pods: bool = False,
    report_progress: Callable[[str], None] = _ignore,
) -> str:
    """Stop these clusters, and return what was done. The first failure is raised when all are
    done."""
    if not clusters:
        return f"No cluster is running in {directory.path}."

    def stop(cluster: ClusterEntry) -> str:
        return stop_cluster(
            directory.data_of(cluster),
            wait=wait,
            keep_pods=keep_pods,
            report_progress=lambda text: report_progress(f"{cluster.name}: {text}"),
        )

    with ThreadPoolExecutor(len(clusters)) as threads:
        done = {each.name: threads.submit(stop, each) for each in clusters}
    failed = {name: error for name, each in done.items() if (error := each.exception())}
    if failed:
        raise CommandFailed("; ".join(f"{name}: {error}" for name, error in failed.items()))
    return "\n".join(f"{name}: {each.result()}" for name, each in done.items())
