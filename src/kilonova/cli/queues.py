"""`kilonova queues`: the tree of queues, and how each is used."""

from typing import TYPE_CHECKING, Annotated

import typer

from kilonova.cli.completing import queue_names
from kilonova.cli.failure import CommandFailed, WrongUsage
from kilonova.cli.lookoptions import (
    Context,
    Data,
    Kubeconfig,
    ListOutput,
    NoHeaders,
    Snapshot,
    Watch,
)

if TYPE_CHECKING:
    from kilonova.scheduler.picture import Picture
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
    watch: Watch = False,
    output: ListOutput = "table",
    no_headers: NoHeaders = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    data: Data = None,
    snapshot: Snapshot = None,
) -> None:
    """Show queues: what they may use, use and wait for.

    Also what they deserve, and what is wrong with them. Of a queue that has others below it, all of
    theirs is in it. The fair share is what a queue can count on while all queues ask for what they
    ask for now.

    \b
    Examples:
      kilonova queues
      kilonova queues research
      kilonova queues --resource cpu -w
      kilonova queues -o json --snapshot before.json.gz
    """
    from kilonova.cli.picturing import picture_from
    from kilonova.cli.queuelist import queue_printer, watch_queues
    from kilonova.cli.tables import in_form
    from kilonova.scheduler.queueview import queues_in

    printer = queue_printer(resource, output, headers=not no_headers)
    if watch:
        if name is not None or snapshot is not None:
            raise WrongUsage("--watch shows all queues of a cluster: give no name, no snapshot")
        watch_queues(printer, kubeconfig, context, data, lambda seen: _require(resource, seen))
        return
    picture = picture_from(snapshot, kubeconfig, context, data)
    _require(resource, picture)
    views = queues_in(picture)
    if name is not None:
        view = next((each for each in views if each.name == name), None)
        if view is None:
            known = ", ".join(each.name for each in views)
            raise CommandFailed(f"there is no queue {name!r}: there are {known}")
        if output in ("json", "yaml"):
            typer.echo(in_form(view, output))
        else:
            typer.echo(f"queue/{view.name}" if output == "name" else one_queue(view))
        return
    printer.print(views, "There are no queues.")
    if output in ("table", "wide") and not no_headers:
        typer.echo(f"\nAmounts of {resource}.")


def _require(resource: str, picture: "Picture") -> None:
    """Refuse a resource that no node has, no queue speaks of and no pod requests: zeros would
    mislead."""
    from kilonova.scheduler.queueview import queues_in

    known = {_GPU}
    for node in picture.nodes:
        known |= {name for name in node.allocatable if name != "pods"}
    for queue in picture.queues:
        known |= {*queue.deserved, *queue.limit}
    for view in queues_in(picture):
        known |= {*view.used, *view.requested}
    if resource not in known:
        named = ", ".join(sorted(known))
        why = "no node has it, no queue speaks of it and no pod requests it"
        if resource == "pods":
            why = "queues do not count pods, and none has a limit for them"
        raise CommandFailed(f"--resource {resource}: {why}: there are {named}")


def queue_table(views: "tuple[QueueView, ...]", resource: str) -> str:
    """All queues as a tree, with their amounts of one resource."""
    from kilonova.cli.queuelist import queue_printer

    lines = queue_printer(resource, "table", headers=True).table(views)
    return "\n".join([*lines, "", f"Amounts of {resource}."])


def one_queue(view: "QueueView") -> str:
    """All there is to say of a queue."""
    from kilonova.cli.screen import tamed
    from kilonova.cli.tables import table

    facts = [
        f"Queue {view.name}" + (f", part of {view.parent}" if view.parent else ""),
        f"Weight {view.weight}, priority {view.priority}",
        tamed(f"Ready: {state_of(view)}, {view.message}"),
    ]
    amounts = (view.deserved, view.limit, view.used, view.requested, view.fair_share)
    names = sorted({name for each in amounts for name in each})
    if names:
        head = ("RESOURCE", "DESERVED", "LIMIT", "USED", "REQUESTED", "FAIR SHARE")
        rows = [(name, *(str(each.get(name, "-")) for each in amounts)) for name in names]
        facts += ["", table(head, rows)]
    if view.waiting:
        facts += ["", "Waiting gangs:", *(tamed(f"  {name}") for name in view.waiting)]
    elif view.pending_gangs:
        facts += ["", f"{view.pending_gangs} gangs wait in queues below it."]
    return "\n".join(facts)


def state_of(view: "QueueView") -> str:
    """Whether its gangs are placed."""
    if not view.ready:
        return f"no ({view.reason})"
    return "yes" if view.reason == "Placing" else f"yes ({view.reason})"
