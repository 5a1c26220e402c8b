"""`kilonova gpu mig`: mig-parted's files on this machine."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kilonova.component.command.flags import Context, Data, Kubeconfig, Output
from kilonova.component.failure import CommandFailed
from kilonova.gpu.commands.machine import Backend, read_machine

if TYPE_CHECKING:
    from kilonova.catalog.mig import MigGeometry
    from kilonova.gpu.devices.model import NodeInventory
    from kilonova.gpu.mig.parted.config_file import ConfigRule
    from kilonova.gpu.mig.parted.operations import ConfigOutcome

app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode=None)

File = Annotated[Path, typer.Argument(metavar="FILE", help="A file of mig-parted, version v1.")]
ConfigName = Annotated[
    str, typer.Option("--config", "-c", metavar="NAME", help="The config, if FILE has several.")
]


@app.callback()
def mig() -> None:
    """Read, compare and apply files of NVIDIA's mig-parted; plan better places for instances.

    \b
    Examples:
      kilonova gpu mig defaults > configs.yaml
      kilonova gpu mig apply configs.yaml --config all-balanced --dry-run
      kilonova gpu mig export > current.yaml
      kilonova gpu mig assert current.yaml
      kilonova gpu mig rebalance
    """


@app.command("export")
def export(backend: Backend = "nvml") -> None:
    """Print the MIG instances of this machine as a file of mig-parted.

    \b
    Examples:
      kilonova gpu mig export > current.yaml
      kilonova gpu mig export --backend simulated:h100
    """
    from kilonova.gpu.mig.parted.config_file import format_config_file
    from kilonova.gpu.mig.parted.operations import export_config

    configs = export_config(read_machine(backend).inventory)
    if not any(configs.values()):
        raise CommandFailed("no GPU of this machine supports MIG")
    typer.echo(format_config_file(configs), nl=False)


@app.command("defaults")
def defaults(backend: Backend = "nvml") -> None:
    """Print the configs that NVIDIA ships with mig-parted, for the GPUs of this machine.

    \b
    Examples:
      kilonova gpu mig defaults > configs.yaml
    """
    from kilonova.gpu.mig.parted.config_file import format_config_file
    from kilonova.gpu.mig.parted.default_configs import generate_configs

    devices = read_machine(backend).inventory.devices
    geometries = [each.geometry for each in devices if each.geometry is not None]
    if not geometries:
        raise CommandFailed("no GPU of this machine supports MIG")
    typer.echo(format_config_file(generate_configs(geometries)), nl=False)


@app.command("assert")
def assert_(file: File, config: ConfigName = "", backend: Backend = "nvml") -> None:
    """Compare this machine with a config; exits with 1 and the differences if it differs.

    \b
    Examples:
      kilonova gpu mig assert current.yaml
      kilonova gpu mig assert configs.yaml --config all-balanced
    """
    from kilonova.gpu.mig.parted.operations import check_config

    name, rules = _load_config(file, config)
    differences = check_config(rules, read_machine(backend).inventory)
    if differences:
        raise CommandFailed("\n".join((f"{name} is not in force:", *differences)))
    typer.echo(f"{name} is in force")


@app.command("apply")
def apply(
    file: File,
    config: ConfigName = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print what would be done.")
    ] = False,
    backend: Backend = "nvml",
    state_dir: Annotated[
        Path, typer.Option(help="Where the agent of this machine keeps its MIG journal.")
    ] = Path("/var/lib/kilonova/agent/mig"),
) -> None:
    """Bring the GPUs of this machine to a config, by as few changes as possible.

    Instances that the config has and that exist stay. A GPU with an instance in use that the config
    lacks is left as it is, and the command exits with 1. On a node with an agent, use the label
    nvidia.com/mig.config of the node instead: the agent keeps others out.

    \b
    Examples:
      kilonova gpu mig apply configs.yaml --config all-balanced --dry-run
      kilonova gpu mig apply configs.yaml --config all-1g.10gb
    """
    from kilonova.gpu.mig.plan.steps import describe_step

    name, rules = _load_config(file, config)
    inventory, outcome = asyncio.run(_apply(rules, backend, state_dir, dry_run))
    index = {device.uuid: f"GPU {device.index}" for device in inventory.devices}
    for result in outcome.results:
        for step in result.planned if dry_run else result.done:
            words = describe_step(step).replace(step.device, index[step.device])
            typer.echo(f"would {words}" if dry_run else f"done: {words}")
    if outcome.problems:
        raise CommandFailed("\n".join((f"{name} is not in force:", *outcome.problems)))
    if not dry_run:
        typer.echo(f"{name} is in force")


@app.command("rebalance")
def rebalance(
    restart: Annotated[
        float, typer.Option(min=0, help="Seconds of work that a pod loses when it is restarted.")
    ] = 60.0,
    lasts: Annotated[
        float, typer.Option(min=1, help="Seconds for which a better packing lasts.")
    ] = 3600.0,
    moves: Annotated[int, typer.Option(min=1, help="The maximum number of moves.")] = 64,
    output: Output = "table",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    data: Data = None,
) -> None:
    """Print which pods of a cluster should have their MIG instances elsewhere, and why.

    Nothing is changed. A move is listed if the capacity that it frees, for the profiles that pods
    have now, is worth more than the work that a restart loses.

    \b
    Examples:
      kilonova gpu mig rebalance
      kilonova gpu mig rebalance -o json
    """
    from kilonova.catalog import load_catalog
    from kilonova.catalog.mig import geometry_named
    from kilonova.component.command.output.formats import encode_as, format_table
    from kilonova.gpu.commands.cluster.gpus import ClusterGpu
    from kilonova.gpu.commands.cluster.output import load_cluster
    from kilonova.gpu.commands.cluster.rebalance import plan_cluster
    from kilonova.scheduler.core.gpu.rebalancing.plan import RebalanceSettings

    catalog = load_catalog()

    def find_geometry(gpu: ClusterGpu) -> "MigGeometry | None":
        model = catalog.find_gpu(gpu.model, gpu.memory_mib)
        return None if model is None else geometry_named(model.mig)

    view = load_cluster((), kubeconfig, context, data)
    settings = RebalanceSettings(benefit_seconds=lasts, max_migrations=moves)
    report = plan_cluster(view, find_geometry, settings, restart)
    if output != "table":
        typer.echo(encode_as(report, output))
        return
    if not report.moves:
        typer.echo("no move is worth it", err=True)
        return
    rows = [(each.pod, each.profile, each.source, each.target) for each in report.moves]
    typer.echo(format_table(("POD", "PROFILE", "FROM", "TO"), rows))
    typer.echo(
        f"capacity for these profiles: {report.free_before:.1f} empty GPUs before, "
        f"{report.free_after:.1f} after; benefit {report.benefit_seconds:.0f} s of a GPU, "
        f"cost {report.cost_seconds:.0f} s"
    )


async def _apply(
    rules: "Sequence[ConfigRule]", backend: str, state_dir: Path, dry_run: bool
) -> "tuple[NodeInventory, ConfigOutcome]":
    from kilonova.catalog import load_catalog
    from kilonova.gpu.devices.errors import GpuError
    from kilonova.gpu.devices.selection import open_backend
    from kilonova.gpu.mig.engine import MigEngine
    from kilonova.gpu.mig.node_lock import EngineIsRunning
    from kilonova.gpu.mig.parted.operations import apply_config

    try:
        opened = open_backend(backend, load_catalog())
    except ValueError as error:
        raise CommandFailed(f"--backend {error}") from error
    engine = MigEngine(opened, state_dir)
    try:
        await engine.open()
        # Without the API the journal shows which holder has what; processes are looked for anyway.
        await engine.reconcile(engine.holdings)
        engine.observe(opened.read_telemetry())
        return engine.inventory, await apply_config(engine, rules, is_dry_run=dry_run)
    except EngineIsRunning as error:
        raise CommandFailed(
            f"{error} To change MIG on this node, label it nvidia.com/mig.config=NAME."
        ) from error
    except GpuError as error:
        raise CommandFailed(f"the GPUs cannot be read: {error}") from error
    except OSError as error:
        raise CommandFailed(f"--state-dir {state_dir}: {error.strerror or error}") from error
    finally:
        engine.close()
        opened.close()


def _load_config(file: Path, name: str) -> "tuple[str, Sequence[ConfigRule]]":
    from kilonova.gpu.mig.parted.config_file import InvalidConfigFile, parse_config_file

    try:
        configs = parse_config_file(file.read_text())
    except OSError as error:
        raise CommandFailed(f"{file}: {error.strerror or error}") from error
    except (InvalidConfigFile, UnicodeDecodeError) as error:
        raise CommandFailed(f"{file}: {error}") from error
    known = ", ".join(configs)
    if not name and len(configs) == 1:
        return next(iter(configs.items()))
    if not name:
        raise CommandFailed(f"{file} has several configs: choose one by --config NAME: {known}")
    if name not in configs:
        raise CommandFailed(f"{file}: there is no config {name!r}: {known}")
    return name, configs[name]
