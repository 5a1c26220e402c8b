"""`kilonova up`, `down` and `status`: the cluster on this machine."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from kilonova.cli.up.components.selection import NO_FLAGS, ComponentFlags, select_components
from kilonova.cli.up.options import (
    DEFAULT_PORT,
    Durability,
    UpOptions,
)
from kilonova.component import find_components
from kilonova.component.command.data_directory import (
    DATA_VARIABLE,
    default_data_directory,
    is_clusters_directory,
)
from kilonova.component.command.flags import Output
from kilonova.component.failure import NOT_RUNNING, CommandFailed

_Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        envvar=DATA_VARIABLE,
        help="Data directory.  [default: kilonova/default in the user's data directory]",
        file_okay=False,
    ),
]
_ExistingData = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        envvar=DATA_VARIABLE,
        help="Data directory.  [default: that of the file in KUBECONFIG, if it is in one, else "
        "kilonova/default in the user's data directory]",
        file_okay=False,
    ),
]


def up(
    data: _Data = None,
    host: Annotated[
        str, typer.Option(metavar="HOST", help="Address on which the API listens.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="Port of the API; 0 for any free.")
    ] = DEFAULT_PORT,
    no_demo: Annotated[
        bool,
        typer.Option(
            "--no-demo",
            help="No demo workloads, and no simulated nodes unless --nodes is given.",
        ),
    ] = False,
    durability: Annotated[
        Durability,
        typer.Option(
            help="When a write is acknowledged: 'full', once it is on disk; 'normal', once the "
            "operating system has it, so that a power failure can lose the last writes."
        ),
    ] = "full",
    controllers: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="Built-in controllers to run: '*' all, '-NAME' all but that one, a list of names "
            "only those.",
        ),
    ] = "*",
    component_flags: ComponentFlags = NO_FLAGS,
    clusters: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=2,
            max=9,
            help="Start N clusters, each in a process of its own, as the members of a fleet. "
            "The kubeconfig has a context for each.",
        ),
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Run in the background; the log is DIR/log.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="With --detach: return when the cluster is ready.")
    ] = False,
) -> None:
    """Start a cluster on this machine and run it until Ctrl-C.

    The cluster has a Kubernetes API, simulated GPU nodes, this machine as a node, a demo in
    namespace demo, and a web console. Its kubeconfig is DIR/kubeconfig. All objects are stored in
    DIR: the next start with the same directory continues with them, and deleted parts of the demo
    are not created again.

    \b
    Examples:
      kilonova up
      kilonova up --detach --wait
      kilonova up --nodes large --allow-actions
      kilonova up --data ./try --port 0 --nodes examples/fleet.yaml
      kilonova up --no-demo --durability normal
      kilonova up --only nodes,scheduler
      kilonova up --without console --controllers='*,-cronjob-controller'
      kilonova up --no-demo --allow-host-path ~/models
      kilonova up --clusters 3
    """
    directory = _resolve_data_directory(data)
    options = UpOptions(
        data=directory,
        host=host,
        port=port,
        durability=durability,
        demo=not no_demo,
        controllers=controllers,
        components=select_components(find_components(), component_flags),
        flags=component_flags.values,
    )
    if clusters is not None or is_clusters_directory(directory):
        from kilonova.cli.up.clusters.command import start_several

        start_several(options, clusters, detach=detach, wait=wait)
        return
    if detach:
        from kilonova.cli.up.background import show_detached_start
        from kilonova.cli.up.welcome import format_welcome

        typer.echo(format_welcome(show_detached_start(options, wait=wait), detached=True))
        return
    from kilonova.cli.up.foreground import run_cluster
    from kilonova.cli.up.reporter import select_reporter

    run_cluster(options, select_reporter())


def down(
    data: _ExistingData = None,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Return when it has stopped.")
    ] = True,
    keep_pods: Annotated[
        bool,
        typer.Option(
            "--keep-pods", help="Leave the processes of pods running; the next start adopts them."
        ),
    ] = False,
    wipe: Annotated[
        bool, typer.Option("--wipe", help="Then remove all data of the cluster.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="With --wipe: do not ask for confirmation.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --wipe: only print what would be removed.")
    ] = False,
) -> None:
    """Stop a cluster and the processes of its pods.

    Its data is kept. With --wipe, objects, keys, logs and files of pods are removed from the data
    directory; other files in it are not touched.

    \b
    Examples:
      kilonova down
      kilonova down --keep-pods
      kilonova down --data ./try --no-wait
      kilonova down --wipe --dry-run
      kilonova down --wipe --yes
    """
    from kilonova.cli.up.clusters.stop import stop_several
    from kilonova.cli.up.clusters.wipe import inspect_several, wipe_several
    from kilonova.cli.up.down import stop_cluster
    from kilonova.cli.up.wipe import inspect_contents, wipe_data_directory
    from kilonova.component.command.cluster_selection import resolve_data_directory

    directory = resolve_data_directory(data)
    several = is_clusters_directory(directory)
    if not wipe and (yes or dry_run):
        raise typer.BadParameter(f"{'--yes' if yes else '--dry-run'} requires --wipe")
    if wipe and (keep_pods or not wait):
        conflicting = "--keep-pods" if keep_pods else "--no-wait"
        raise typer.BadParameter(f"--wipe stops all pods and waits: leave out {conflicting}")
    if wipe:
        contents = inspect_several(directory) if several else inspect_contents(directory)
        typer.echo(contents.summary)
        if dry_run or not contents.owned:
            return
        if not yes and not sys.stdin.isatty():
            raise CommandFailed("standard input is not a terminal: confirm --wipe with --yes")
        if not yes:
            typer.confirm("Remove it all?", abort=True)

    def print_progress(text: str) -> None:
        typer.echo(text, err=True)

    stop, remove = (stop_several, wipe_several) if several else (stop_cluster, wipe_data_directory)
    stopped = stop(directory, wait=wait, keep_pods=keep_pods, report_progress=print_progress)
    typer.echo(remove(directory) if wipe else stopped)


def status(
    data: _ExistingData = None,
    output: Output = "table",
) -> None:
    """Show the state of the cluster on this machine.

    That is its address, nodes, pods and components. If no cluster is running: whether the last one
    was stopped, failed or was killed, and how many containers of its pods still run on this
    machine. The link to the console contains its access token; `-o json` has it as `console`.

    Exits with 3 if no cluster is running, and with 1 if its API does not answer.

    \b
    Examples:
      kilonova status
      kilonova status -o json --data ./try
    """
    from kilonova.cli.up.status import find_status, format_status
    from kilonova.component.command.cluster_selection import resolve_data_directory

    directory = resolve_data_directory(data)
    if is_clusters_directory(directory):
        from kilonova.cli.up.clusters.command import print_status_of_several

        print_status_of_several(directory, output)
        return
    found = find_status(directory)
    typer.echo(format_status(found.status, output))
    if found.problem:
        raise CommandFailed(found.problem)
    if not found.status.running:
        raise typer.Exit(NOT_RUNNING)


def _resolve_data_directory(data: Path | None) -> Path:
    return Path(os.path.abspath((data or default_data_directory()).expanduser()))
