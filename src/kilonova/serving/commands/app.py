"""The command `kilonova serve` and its subcommands."""

from typing import Annotated, Literal

import typer

from kilonova.component.command.flags import Context, Data, Kubeconfig, Namespace
from kilonova.serving.commands.bench.command import bench
from kilonova.serving.commands.changes import delete, pause, resume, scale
from kilonova.serving.commands.flags import DryRun
from kilonova.serving.commands.keys.command import app as key
from kilonova.serving.commands.logs import logs
from kilonova.serving.commands.views.list import list_services
from kilonova.serving.commands.views.show import show
from kilonova.serving.commands.views.why import why

app = typer.Typer(add_completion=False, invoke_without_command=True, rich_markup_mode=None)


@app.callback()
def serve(
    command: typer.Context,
    file: Annotated[
        list[str] | None,
        typer.Option(
            "--filename",
            "-f",
            metavar="FILE|DIR|-",
            help="Manifests, or a values file of SuperSONIC. Can be repeated.",
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            "--release",
            metavar="NAME",
            help="The name of the service, or of the release of a values file.  [default: that of "
            "the manifest; supersonic]",
        ),
    ] = None,
    output: Annotated[
        Literal["yaml", "json"] | None,
        typer.Option("--output", "-o", help="Print the objects, and apply nothing."),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait until the service answers.")
    ] = True,
    timeout: Annotated[
        str, typer.Option(metavar="DURATION", help="How long to wait at most.")
    ] = "10m",
    dry_run: DryRun = False,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    data: Data = None,
) -> None:
    """Start, show, steer and load-test inference services.

    -f applies an InferenceService, or a values file of SuperSONIC, which is a file without `kind`,
    waits until it answers, and prints its addresses. Flags of a subcommand follow its name.

    \b
    Examples:
      kilonova serve -f examples/serving/service.yaml
      kilonova serve -f values.yaml --release sonic -n cms
      kilonova serve -f values.yaml -o yaml
      kilonova serve list
      kilonova serve why chat
      kilonova serve bench chat --concurrency 8 --duration 30s
    """
    from kilonova.component.failure import WrongUsage

    if command.invoked_subcommand is not None:
        if file or name or output or dry_run or namespace:
            words = f"kilonova serve {command.invoked_subcommand}"
            raise WrongUsage(f"put flags behind the subcommand: `{words} …`")
        return
    if not file:
        if name or output or dry_run:
            raise WrongUsage("name what to serve: -f FILE")
        typer.echo(command.get_help())
        return
    from kilonova.serving.commands.apply.command import ApplyOptions, apply_files

    options = ApplyOptions(name=name, output=output, wait=wait, timeout=timeout, dry_run=dry_run)
    apply_files(file, options, namespace, kubeconfig, context, data)


app.command("list")(list_services)
app.command("show")(show)
app.command("why")(why)
app.command("bench")(bench)
app.command("logs")(logs)
app.command("scale")(scale)
app.command("pause")(pause)
app.command("resume")(resume)
app.command("delete")(delete)
app.add_typer(key, name="key")
