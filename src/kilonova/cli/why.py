"""`kilonova why`: why a pod or a gang has the place that it has, or none."""

from typing import Annotated

import typer

from kilonova.cli.completing import pod_and_gang_names
from kilonova.cli.failure import CommandFailed
from kilonova.cli.lookoptions import Config, Context, Data, Kubeconfig, Namespace, Output, Snapshot

_GANGS = ("gang/", "podgang/", "podgangs/", "podgroup/", "podgroups/", "pg/")
_KINDS = ("pod/", "pods/", *_GANGS, "rsv/", "reservation/", "reservations/")


def why(
    name: Annotated[
        str,
        typer.Argument(
            metavar="POD|GANG",
            help="Name of a pod, a PodGang or a PodGroup.",
            autocompletion=pod_and_gang_names,
        ),
    ],
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    data: Data = None,
    snapshot: Snapshot = None,
    config: Config = None,
    output: Output = "table",
) -> None:
    """Say why a pod or a gang waits, or stands where it does.

    Of one that waits: what would let it in, and when it should start. Of one that has its place:
    where, since when, which devices, and how the node scores beside the next best. It is worked out
    anew from the cluster as it is; the scheduler need not run.

    \b
    Examples:
      kilonova why trainer-0
      kilonova why llama-0 -n research
      kilonova why podgang/llama-0 -o json
      kilonova why trainer-0 --snapshot monday.json.gz
    """
    from kilonova.cli.clusters import cluster_meant, namespace_meant
    from kilonova.cli.picturing import picture_from
    from kilonova.cli.tables import in_form
    from kilonova.cli.whytext import answer_text
    from kilonova.scheduler.answering import answer

    plain = next((name.removeprefix(kind) for kind in _KINDS if name.startswith(kind)), name)
    picture = picture_from(snapshot, kubeconfig, context, data, config)
    if snapshot is None:
        meant = cluster_meant(kubeconfig, context, data)
        namespace = namespace_meant(namespace, meant, context)
    namespace = namespace or "default"
    found = answer(picture, namespace, plain)
    if found is None:
        raise CommandFailed(
            f"no pod or gang {plain!r} in namespace {namespace} has a node or waits for "
            "kilonova-scheduler: see -n, and the schedulerName of the pod"
        )
    typer.echo(answer_text(found, picture.now) if output == "table" else in_form(found, output))
