"""`kilonova why`: why a pod or a gang has the place that it has, or none."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from kilonova.cli.completing import names_with_reasons
from kilonova.cli.failure import CommandFailed, WrongUsage
from kilonova.cli.lookoptions import Config, Context, Data, Kubeconfig, Namespace, Output, Snapshot

if TYPE_CHECKING:
    from kilonova.scheduler.answering import Answer
    from kilonova.scheduler.capturing import Captured

_PODS = ("pod", "pods", "po")
_GANGS = ("gang", "podgang", "podgangs", "podgroup", "podgroups", "pg")
_RESERVATIONS = ("rsv", "reservation", "reservations")
_SUGGESTED = 3
_SHOWN = 8
"""So many pods and gangs of a workload are answered for, those that wait first."""


def why(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="A pod, a PodGang or PodGroup, or a workload (KIND/NAME, as job/x).",
            autocompletion=names_with_reasons,
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
    """Say why a pod, a gang or a workload waits, or stands where it does.

    Of one that waits: what would let it in, and when it should start. Of one that has its place:
    where, since when, which devices, and how the node scores beside the next best. It is worked out
    anew from the cluster as it is; the scheduler need not run.

    Of a workload (a PodCliqueSet, Deployment, StatefulSet, ReplicaSet, DaemonSet, Job or the like)
    each gang and each pod without a gang is answered for, those that wait first.

    \b
    Examples:
      kilonova why trainer-0
      kilonova why llama-0 -n research
      kilonova why podgang/llama-0 -o json
      kilonova why job/train
      kilonova why pcs/llama -n research
      kilonova why trainer-0 --snapshot monday.json.gz
    """
    from kilonova.cli.clusters import cluster_meant, namespace_meant
    from kilonova.cli.picturing import looked_at
    from kilonova.cli.tables import in_form
    from kilonova.cli.whytext import answer_text

    kind, plain = _kind_and_name(name)
    seen = looked_at(snapshot, kubeconfig, context, data, config)
    if snapshot is None:
        meant = cluster_meant(kubeconfig, context, data)
        namespace = namespace_meant(namespace, meant, context)
    _require_kind(seen, kind)
    found = _answers(seen, kind, namespace or "default", plain)
    if isinstance(found, list):
        shown = [answer_text(each, seen.picture.now) for each in found[:_SHOWN]]
        if len(found) > _SHOWN:
            left = ", ".join(each.gang for each in found[_SHOWN:][:_SUGGESTED])
            shown.append(f"And {len(found) - _SHOWN} more: {left} …")
        text = "\n\n".join(shown)
    else:
        text = answer_text(found, seen.picture.now)
    typer.echo(text if output == "table" else in_form(found, output))


def _kind_and_name(typed: str) -> tuple[str, str]:
    """The kind of a workload, "" where a pod or a gang is named, and the name; "*" where no kind
    is."""
    from kilonova.cli.owners import owner_kind

    kind, stroke, name = typed.rpartition("/")
    if not name or "/" in kind or (stroke and not kind):
        raise WrongUsage(f"{typed!r}: write a NAME, or KIND/NAME, as job/train")
    if not stroke:
        return "*", typed
    if kind.lower().partition(".")[0] in (*_PODS, *_GANGS, *_RESERVATIONS):
        return "", name
    plain = kind.lower().partition(".")[0]
    if plain in _OWN_NO_PODS:
        raise _no_owner(plain)
    return owner_kind(kind) or plain, name


def _require_kind(seen: "Captured", kind: str) -> None:
    """Refuse a kind that owns no pods: neither one of those that do, nor a custom one of which some
    pod or gang is."""
    from kilonova.cli.owners import KINDS, kinds_of

    known = ("", "*", *KINDS)
    if kind not in known and kind not in kinds_of(seen.pods, seen.gangs):
        raise _no_owner(kind)


def _no_owner(kind: str) -> WrongUsage:
    from kilonova.cli.owners import KINDS

    named = ", ".join(("pod", "podgang", "podgroup", "reservation", *KINDS))
    return WrongUsage(f"there is no kind {kind!r} here that owns pods; there are {named}")


def _answers(seen: "Captured", kind: str, namespace: str, name: str) -> "Answer | list[Answer]":
    """The answer about a pod or a gang; those about all that a workload has."""
    from kilonova.cli.owners import members_of
    from kilonova.cli.screen import tamed
    from kilonova.scheduler.answering import answer, names_in

    picture = seen.picture
    found = answer(picture, namespace, name, seen.unserved) if kind in ("", "*") else None
    if found is not None:
        return found
    owner = None if kind == "*" else kind
    members = members_of(owner, namespace, name, seen.pods, seen.gangs) if kind else []
    asked = (answer(picture, namespace, each, seen.unserved) for each in members)
    several = {each.gang: each for each in asked if each is not None}
    if several:
        return sorted(several.values(), key=lambda each: (_ORDER.index(each.state), each.gang))
    if members:
        some = "no pod" if len(members) == 1 else f"none of the {len(members)} pods and gangs"
        raise CommandFailed(
            f"{some} of {tamed(name)} in namespace {namespace} has a node or waits for "
            f"kilonova-scheduler: {'it has' if len(members) == 1 else 'they have'} ended"
        )
    hint = tamed(_hint(names_in(picture), namespace, name))
    if kind not in ("", "*"):
        raise CommandFailed(
            f"there is no pod or gang of {kind} {name!r} in namespace {namespace}: it is suspended "
            f"or scaled to 0, has made no pods yet, or does not exist; {hint}"
        )
    raise CommandFailed(
        f"no pod or gang {name!r} in namespace {namespace} has a node or waits for "
        f"kilonova-scheduler: {hint}"
    )


_OWN_NO_PODS = frozenset(
    [
        "service",
        "svc",
        "configmap",
        "cm",
        "secret",
        "namespace",
        "ns",
        "event",
        "ingress",
        "ing",
        "persistentvolumeclaim",
        "pvc",
        "persistentvolume",
        "pv",
        "serviceaccount",
        "sa",
        "endpoints",
        "networkpolicy",
        "queue",
    ]
)
"""Kinds that everybody has and that own no pods: refused without looking at the cluster."""

_ORDER = ("Waiting", "NotYet", "Next", "Placed")


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
