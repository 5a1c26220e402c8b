"""`kilonova why`: why a pod or a gang has the place that it has, or none."""

from collections.abc import Iterable
from typing import Annotated

import typer

from kilonova.cli.completing import pod_and_gang_names
from kilonova.cli.failure import CommandFailed
from kilonova.cli.lookoptions import Config, Context, Data, Kubeconfig, Namespace, Output, Snapshot

_GANGS = ("gang/", "podgang/", "podgangs/", "podgroup/", "podgroups/", "pg/")
_SUGGESTED = 3
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
    from kilonova.cli.screen import tamed
    from kilonova.cli.tables import in_form
    from kilonova.cli.whytext import answer_text
    from kilonova.scheduler.answering import answer, names_in

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
            f"kilonova-scheduler: {tamed(_hint(names_in(picture), namespace, plain))}"
        )
    typer.echo(answer_text(found, picture.now) if output == "table" else in_form(found, output))


def _hint(known: Iterable[str], namespace: str, name: str) -> str:
    """Whom could be meant: those of that name elsewhere, else what a workload of that name made."""
    keys = [key.split("/", 1) for key in known]
    meant = [key for key in keys if key[1] == name]
    meant = meant or [key for key in keys if key[0] == namespace and _made_by(name, key[1])]
    meant = meant or [key for key in keys if _made_by(name, key[1])]
    if not meant:
        return "see -n, and the schedulerName of the pod"
    nearest = sorted(meant, key=lambda key: (len(key[1]), key))[:_SUGGESTED]
    return f"did you mean {' or '.join(f'{each} -n {space}' for space, each in nearest)}?"


def _made_by(workload: str, name: str) -> bool:
    return name.startswith(f"{workload}-")
