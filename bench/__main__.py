"""`python -m bench`: list the benchmarks, or run one."""

import typer
from rich.console import Console

from bench.cluster.command import cluster
from bench.fleet.command import fleet
from bench.gpu.command import gpu
from bench.home.command import home
from bench.packing.command import packing
from bench.product.command import product
from bench.scheduler.command import scheduler
from bench.schedulerapi.command import scheduler_api
from bench.serving.command import serving
from bench.workloads.command import workloads

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
app.command("home")(home)
app.command("cluster")(cluster)
app.command("workloads")(workloads)
app.command("scheduler")(scheduler)
app.command("scheduler-api")(scheduler_api)
app.command("packing")(packing)
app.command("gpu")(gpu)
app.command("fleet")(fleet)
app.command("serving")(serving)
app.command("product")(product)


@app.callback(invoke_without_command=True)
def benchmarks(context: typer.Context) -> None:
    """Benchmarks of Kilonova. Each prints a table; run them on an idle machine."""
    if context.invoked_subcommand is not None:
        return
    console = Console(soft_wrap=True)
    console.print("usage: python -m bench NAME [--json FILE] [inputs]\n", markup=False)
    for command in app.registered_commands:
        summary = (command.callback.__doc__ or "").partition("\n")[0]
        console.print(f"  {command.name:13} {summary}")


if __name__ == "__main__":
    app(prog_name="python -m bench")
