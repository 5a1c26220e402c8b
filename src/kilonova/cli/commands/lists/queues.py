"""`kilonova queues`: the tree of queues and their usage."""

from typing import Annotated

import typer

from kilonova.catalog.resource_names import GPU
from kilonova.cli.commands.name_completion import complete_queues
from kilonova.component.command.flags import (
    Context,
    Data,
    Kubeconfig,
    ListOutput,
    NoHeaders,
    Snapshot,
    Watch,
)
from kilonova.component.failure import CommandFailed, WrongUsage


def queues(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Name.", autocompletion=complete_queues),
    ] = None,
    resource: Annotated[
        str, typer.Option(metavar="NAME", help="Resource whose amounts are shown.")
    ] = GPU,
    watch: Watch = False,
    output: ListOutput = "table",
    no_headers: NoHeaders = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    data: Data = None,
    snapshot: Snapshot = None,
) -> None:
    """List queues with their limits and usage.

    Shown are deserved amounts, limits, usage, requests and pending gangs. Amounts of a queue
    include those of its child queues. The fair share is what the queue is entitled to, given the
    current requests of all queues. The scheduler writes these figures to the status of queues
    every few seconds; for a snapshot they are computed.

    \b
    Examples:
      kilonova queues
      kilonova queues research
      kilonova queues --resource cpu -w
      kilonova queues -o json --snapshot before.json.gz
    """
    from kilonova.cli.lists.queues import (
        build_queue_printer,
        captured_queue_views,
        format_queue,
        validate_resource,
        warn_without_default_queue,
        watch_queues,
    )
    from kilonova.component.command.output.formats import encode_as
    from kilonova.scheduler.library.queue_views import compute_queue_views
    from kilonova.scheduler.snapshot_source import capture_or_load

    printer = build_queue_printer(resource, output, headers=not no_headers)
    if watch:
        if name is not None or snapshot is not None:
            raise WrongUsage("--watch lists all queues of a cluster: give no name and no snapshot")
        watch_queues(printer, resource, kubeconfig, context, data)
        return
    captured = capture_or_load(snapshot, kubeconfig, context, data)
    if snapshot is None:
        views = captured_queue_views(captured)
        warn_without_default_queue(captured)
    else:
        views = compute_queue_views(captured.cluster_snapshot)
    validate_resource(resource, captured.cluster_snapshot, views)
    if name is not None:
        view = next((each for each in views if each.name == name), None)
        if view is None:
            known = ", ".join(each.name for each in views) or "none"
            raise CommandFailed(f"there is no queue {name!r}: there are {known}")
        if output in ("json", "yaml"):
            typer.echo(encode_as(view, output))
        else:
            typer.echo(f"queue/{view.name}" if output == "name" else format_queue(view))
        return
    printer.print(views, "There are no queues.")
    if views and output in ("table", "wide") and not no_headers:
        typer.echo(f"\nAmounts of {resource}.")
