"""`kilonova queues`: the tree of queues, and how each is used."""

from typing import TYPE_CHECKING, Annotated

import typer

from kilonova.cli.completing import queue_names
from kilonova.cli.failure import CommandFailed
from kilonova.cli.lookoptions import Context, Data, Kubeconfig, Output, Snapshot

if TYPE_CHECKING:
    from kilonova.scheduler.queueview import QueueView

_GPU = "nvidia.com/gpu"


def queues(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="One queue.", autocompletion=queue_names),
    ] = None,
    resource: Annotated[
        str, typer.Option(metavar="NAME", help="The resource whose amounts are shown.")
    ] = _GPU,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    data: Data = None,
    snapshot: Snapshot = None,
    output: Output = "table",
) -> None:
    """Show queues: what they deserve, may use, use and wait for, and what is wrong with them.

    Of a queue that has others below it, all of theirs is in it. The fair share is what a queue can
    count on while all queues ask for what they ask for now.

    \b
    Examples:
      kilonova queues
      kilonova queues research
      kilonova queues --resource cpu
      kilonova queues -o json --snapshot before.json.gz
    """
    from kilonova.cli.picturing import picture_from
    from kilonova.cli.tables import in_form
    from kilonova.scheduler.queueview import queues_in

    views = queues_in(picture_from(snapshot, kubeconfig, context, data))
    if name is not None:
        view = next((each for each in views if each.name == name), None)
        if view is None:
            known = ", ".join(each.name for each in views)
            raise CommandFailed(f"there is no queue {name!r}: there are {known}")
        typer.echo(one_queue(view) if output == "table" else in_form(view, output))
        return
    typer.echo(queue_table(views, resource) if output == "table" else in_form(views, output))


def queue_table(views: "tuple[QueueView, ...]", resource: str) -> str:
    """All queues as a tree, with their amounts of one resource."""
    from kilonova.cli.tables import table

    head = ("QUEUE", "DESERVED", "LIMIT", "USED", "REQUESTED", "FAIR SHARE", "PENDING", "READY")
    rows = [
        (
            "  " * view.depth + view.name,
            str(view.deserved.get(resource, "-")),
            str(view.limit.get(resource, "-")),
            str(view.used.get(resource, 0)),
            str(view.requested.get(resource, 0)),
            str(view.fair_share.get(resource, 0)),
            str(view.pending_gangs),
            _state(view),
        )
        for view in views
    ]
    return f"{table(head, rows)}\n\nAmounts of {resource}."


def one_queue(view: "QueueView") -> str:
    """All there is to say of a queue."""
    from kilonova.cli.tables import table

    facts = [
        f"Queue {view.name}" + (f", part of {view.parent}" if view.parent else ""),
        f"Weight {view.weight}, priority {view.priority}",
        f"Ready: {_state(view)}, {view.message}",
    ]
    amounts = (view.deserved, view.limit, view.used, view.requested, view.fair_share)
    names = sorted({name for each in amounts for name in each})
    if names:
        head = ("RESOURCE", "DESERVED", "LIMIT", "USED", "REQUESTED", "FAIR SHARE")
        rows = [(name, *(str(each.get(name, "-")) for each in amounts)) for name in names]
        facts += ["", table(head, rows)]
    if view.waiting:
        facts += ["", "Waiting gangs:", *(f"  {name}" for name in view.waiting)]
    elif view.pending_gangs:
        facts += ["", f"{view.pending_gangs} gangs wait in queues below it."]
    return "\n".join(facts)


def _state(view: "QueueView") -> str:
    if not view.ready:
        return f"no ({view.reason})"
    return "yes" if view.reason == "Placing" else f"yes ({view.reason})"
