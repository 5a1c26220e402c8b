"""The commands as typed: options, help and exit codes. What they do is imported when they run."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal, NoReturn

import typer

from kilonova.cli.completion import completion
from kilonova.cli.doctor import doctor
from kilonova.cli.failure import FAILED, NOT_RUNNING, CommandFailed
from kilonova.cli.gangs import gangs
from kilonova.cli.lookoptions import Output
from kilonova.cli.nodes import nodes
from kilonova.cli.options import (
    DATA_VARIABLE,
    FLEETS,
    PORT,
    Durability,
    UpOptions,
    default_data,
    fleet_names,
    host_paths,
)
from kilonova.cli.plan import plan
from kilonova.cli.queues import queues
from kilonova.cli.run import app as run_app
from kilonova.cli.snapshot import app as snapshot_app
from kilonova.cli.top import top
from kilonova.cli.why import why
from kilonova.cli.workloads import workloads

_EXIT_CODES = """\
\b
Exit codes:
    0  done
    1  refused or failed; one line on standard error says why
    2  wrong usage
    3  `status`: nothing runs
    7  `run operator --mnnvl`: the cluster has no ComputeDomains
  130  stopped by Ctrl-C
"""

# Rich help costs 200 ms more, for which nobody waits gladly.
app = typer.Typer(
    help="Kilonova: AI workloads on GPU clusters, end to end.",
    epilog=_EXIT_CODES,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(run_app, name="run")
app.add_typer(snapshot_app, name="snapshot")


def _print_version(asked: bool) -> None:
    if asked:
        version()
        raise typer.Exit


@app.callback()
def kilonova(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Kilonova: AI workloads on GPU clusters, end to end."""


_Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        envvar=DATA_VARIABLE,
        help="Folder of the cluster.  [default: kilonova/default in the user's data folder]",
        file_okay=False,
    ),
]
_DataThere = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        envvar=DATA_VARIABLE,
        help="Folder of the cluster.  [default: that of KUBECONFIG, if it is in a folder of ours, "
        "else kilonova/default in the user's data folder]",
        file_okay=False,
    ),
]


def main(command: Callable[..., object] = app, program: str = "kilonova") -> None:
    """Run the command line of this process."""
    try:
        command(prog_name=program)
    except CommandFailed as failure:
        _end(str(failure), failure.code)
    except PermissionError as error:
        if error.filename is None:
            raise
        _end(f"{error.filename}: {error.strerror}", FAILED)


def _end(why: str, code: int) -> NoReturn:
    typer.echo(f"kilonova: {why}", err=True)
    sys.exit(code)


@app.command()
def up(
    data: _Data = None,
    host: Annotated[
        str, typer.Option(metavar="HOST", help="Address on which the API listens.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="Its port; 0 takes a free one.")
    ] = PORT,
    nodes: Annotated[
        str | None,
        typer.Option(
            metavar="small|large|FILE",
            help="Simulated nodes: 34 machines with GPUs, 2,000 of them, or those of a file.  "
            "[default: small]",
            autocompletion=fleet_names,
        ),
    ] = None,
    no_demo: Annotated[
        bool,
        typer.Option(
            "--no-demo",
            help="Start it bare: no workloads, and no simulated nodes but those of --nodes.",
        ),
    ] = False,
    process_node: Annotated[
        bool,
        typer.Option(
            help="Make this machine a node too, whose pods run as processes: choose it with the "
            "node selector kilonova.dev/node-kind=process."
        ),
    ] = True,
    allow_host_path: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="PATH",
            help="Let pods on this machine see PATH (absolute), and all below it, as "
            "hostPath volumes; may be given again.",
        ),
    ] = None,
    durability: Annotated[
        Durability,
        typer.Option(
            help="When a write is acknowledged: 'full', on disk; 'normal', in the care of the "
            "system, so that only a power failure can lose the last ones."
        ),
    ] = "full",
    controllers: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="Which built-in controllers run: '*' all, '-NAME' all but that one, a list of "
            "names only those. Leave out what another program does.",
        ),
    ] = "*",
    operator: Annotated[
        bool, typer.Option(help="Run the operator of PodCliqueSets, and have its kinds.")
    ] = True,
    scheduler: Annotated[
        bool, typer.Option(help="Run the scheduler; without, pods wait for one of your own.")
    ] = True,
    console: Annotated[bool, typer.Option(help="Serve the console, a web page.")] = True,
    console_host: Annotated[
        str, typer.Option(metavar="HOST", help="Address on which the console listens.")
    ] = "127.0.0.1",
    console_port: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            max=65535,
            help="Its port; 0 takes a free one.  [default: the one after --port]",
        ),
    ] = None,
    allow_actions: Annotated[
        bool,
        typer.Option(
            "--allow-actions",
            help="Let people scale, restart, suspend, resume, cordon, drain and delete in the "
            "console.",
        ),
    ] = False,
    detach: Annotated[
        bool, typer.Option("--detach", help="Run in the background; the log is DIR/log.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="With --detach: return when all of it is there.")
    ] = False,
) -> None:
    """Start a cluster on this machine, and run it until Ctrl-C.

    It is a Kubernetes API with simulated nodes, this machine as another one, a demo in the
    namespace demo, and a console. DIR/kubeconfig leads to it. What is in it stays in DIR: the next
    start on the same folder goes on from there, and what you deleted of the demo stays deleted.

    \b
    Examples:
      kilonova up
      kilonova up --detach --wait
      kilonova up --nodes large --allow-actions
      kilonova up --data ./try --port 0 --nodes examples/fleet.yaml
      kilonova up --no-demo --durability normal
      kilonova up --no-scheduler --controllers='*,-cronjob-controller'
      kilonova up --no-demo --allow-host-path ~/models
    """
    options = UpOptions(
        data=_folder(data),
        host=host,
        port=port,
        durability=durability,
        nodes=_fleet(nodes, demo=not no_demo),
        demo=not no_demo,
        controllers=controllers,
        process_node=process_node,
        allowed_host_paths=host_paths(allow_host_path or ()),
        operator=operator,
        scheduler=scheduler,
        console=console,
        console_host=console_host,
        console_port=console_port,
        allow_actions=allow_actions,
    )
    if detach:
        from kilonova.cli.background import detach_cluster
        from kilonova.cli.welcome import welcome_text

        typer.echo(welcome_text(detach_cluster(options, wait=wait), detached=True))
        return
    from kilonova.cli.audience import present_audience
    from kilonova.cli.foreground import run_cluster

    run_cluster(options, present_audience())


@app.command()
def down(
    data: _DataThere = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Return when it is gone.")] = True,
    keep_pods: Annotated[
        bool,
        typer.Option(
            "--keep-pods", help="Leave the processes of pods running: the next start adopts them."
        ),
    ] = False,
    wipe: Annotated[
        bool, typer.Option("--wipe", help="Then forget everything: remove what is in the folder.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --wipe: do not ask.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --wipe: only say what would be removed.")
    ] = False,
) -> None:
    """Stop the cluster that runs on a folder, and the processes of its pods. Its data stays.

    With --wipe it does not: objects, keys, logs and files of pods are removed from the folder. What
    Kilonova did not put there is left alone.

    \b
    Examples:
      kilonova down
      kilonova down --keep-pods
      kilonova down --data ./try --no-wait
      kilonova down --wipe --dry-run
      kilonova down --wipe --yes
    """
    from kilonova.cli.clusters import folder_meant
    from kilonova.cli.down import stop_cluster
    from kilonova.cli.wipe import find_belongings, wipe_data

    folder = folder_meant(data)
    if not wipe and (yes or dry_run):
        raise typer.BadParameter(f"{'--yes' if yes else '--dry-run'} belongs to --wipe")
    if wipe and (keep_pods or not wait):
        unfit = "--keep-pods" if keep_pods else "--no-wait"
        raise typer.BadParameter(f"--wipe waits until all is gone: leave out {unfit}")
    if wipe:
        belongings = find_belongings(folder)
        typer.echo(belongings.text)
        if dry_run or not belongings.ours:
            return
        if not yes and not sys.stdin.isatty():
            raise CommandFailed("nobody is there to be asked whether to remove it: say --yes")
        if not yes:
            typer.confirm("Remove it all?", abort=True)

    def tell(text: str) -> None:
        typer.echo(text, err=True)

    stopped = stop_cluster(folder, wait=wait, keep_pods=keep_pods, tell=tell)
    typer.echo(wipe_data(folder) if wipe else stopped)


@app.command()
def status(
    data: _DataThere = None,
    output: Output = "table",
) -> None:
    """Say whether a cluster runs, where, what it has, and how far each room of it is.

    Of one that does not run: whether it was stopped, failed or was killed, and what of its pods
    still runs on this machine. The link to the console lets in whoever has it: `-o json` gives it
    as `console`.

    Exits with 3 when nothing runs, and with 1 when what runs does not answer.

    \b
    Examples:
      kilonova status
      kilonova status -o json --data ./try
    """
    from kilonova.cli.clusters import folder_meant
    from kilonova.cli.status import find_status, written

    found = find_status(folder_meant(data))
    typer.echo(written(found.status, output))
    if found.problem:
        raise CommandFailed(found.problem)
    if not found.status.running:
        raise typer.Exit(NOT_RUNNING)


@app.command()
def install(
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Kubeconfig of the cluster.  [default: KUBECONFIG, else ~/.kube/config]",
            dir_okay=False,
        ),
    ] = None,
    context: Annotated[
        str | None, typer.Option(metavar="NAME", help="Its context, instead of the current one.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Let the cluster say what would change, and no more.")
    ] = False,
    output: Annotated[
        Literal["yaml"] | None,
        typer.Option("--output", "-o", help="Print the definitions instead; needs no cluster."),
    ] = None,
) -> None:
    """Define Kilonova's kinds (PodCliqueSet and the like) on any Kubernetes cluster.

    They are applied by the server, under the field manager 'kilonova', and served when the
    command returns. Doing it again changes nothing. `kilonova up` has them already.

    \b
    Examples:
      kilonova install
      kilonova install --dry-run --context staging
      kilonova install --kubeconfig ~/.kube/lab
      kilonova install -o yaml > definitions.yaml
    """
    from kilonova.cli.install import install_on_cluster, written_definitions

    if output == "yaml":
        typer.echo(written_definitions())
        return
    for each in install_on_cluster(kubeconfig, context, dry_run=dry_run):
        typer.echo(f"{each.name} {each.outcome}{' (dry run)' if dry_run else ''}")


@app.command()
def version() -> None:
    """Print the version.

    \b
    Example:
      kilonova version
    """
    from kilonova import __version__

    typer.echo(f"kilonova {__version__}")


for _command in (top, nodes, workloads, gangs, queues, why, plan, doctor, completion):
    app.command()(_command)


def _fleet(nodes: str | None, *, demo: bool) -> str | None:
    """What a fleet is called, or its file, so that any process finds it."""
    if nodes is None:
        return FLEETS[0] if demo else None
    return nodes if nodes in FLEETS else str(Path(nodes).expanduser().absolute())


def _folder(data: Path | None) -> Path:
    return Path(os.path.abspath((data or default_data()).expanduser()))
