"""`kilonova why`: why a pod, gang or workload is pending, or why it is placed where it is."""

from typing import Annotated

import typer

from kilonova.cli.commands.name_completion import complete_explainable_names
from kilonova.component.command.flags import (
    Config,
    Context,
    Data,
    Kubeconfig,
    Namespace,
    Output,
    Snapshot,
)

_MAX_NAMES = 3
_MAX_ANSWERS = 8
"""Gangs and pods of a workload that are shown as text, pending ones first."""


def why(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="A pod, a PodGang or PodGroup, or a workload (KIND/NAME, such as job/x).",
            autocompletion=complete_explainable_names,
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
    """Explain why a pod, gang or workload is pending.

    Or, if it is placed, why it is placed where it is.

    If it is pending: what blocks it, the smallest change that would let it be scheduled, and the
    expected start. If it is placed: nodes, devices, since when, and the score of the node compared
    with the next best. The answer is computed from the current state of the cluster; the scheduler
    need not be running.

    For a workload (PodCliqueSet, GPUWorkload, InferenceEngineInstance, Deployment, StatefulSet,
    DaemonSet, Job …), each gang and each pod without a gang is explained, pending ones first.

    \b
    Examples:
      kilonova why trainer-0
      kilonova why llama-0 -n research
      kilonova why podgang/llama-0 -o json
      kilonova why job/train
      kilonova why pcs/llama -n research
      kilonova why trainer-0 --snapshot monday.json.gz
    """
    from kilonova.cli.why import gpu_workload, instance
    from kilonova.cli.why.answer_text import format_answer
    from kilonova.cli.why.target import find_answers, parse_target, validate_kind
    from kilonova.component.command.cluster_selection import resolve_kubeconfig, resolve_namespace
    from kilonova.component.command.output.formats import encode_as
    from kilonova.component.failure import CommandFailed
    from kilonova.scheduler.snapshot_source import capture_or_load

    target = parse_target(name)
    captured = capture_or_load(snapshot, kubeconfig, context, data, config)
    resolved = None
    if snapshot is None:
        resolved = resolve_kubeconfig(kubeconfig, context, data)
        namespace = resolve_namespace(namespace, resolved, context)
    validate_kind(captured, target)
    namespace = namespace or "default"
    try:
        answers = find_answers(captured, target, namespace)
    except CommandFailed:
        readers = {
            "gpuworkload": gpu_workload.read_reason,
            "inferenceengineinstance": instance.read_reason,
        }
        read_reason = None if target.kind is None else readers.get(target.kind.kind)
        if snapshot is not None or read_reason is None:
            raise
        reason = read_reason(namespace, target.name, resolved, context)
        if not reason:
            raise
        raise CommandFailed(reason) from None
    now = captured.cluster_snapshot.now
    if isinstance(answers, list):
        texts = [format_answer(each, now) for each in answers[:_MAX_ANSWERS]]
        if len(answers) > _MAX_ANSWERS:
            others = ", ".join(each.gang for each in answers[_MAX_ANSWERS:][:_MAX_NAMES])
            texts.append(f"And {len(answers) - _MAX_ANSWERS} more: {others} …")
        text = "\n\n".join(texts)
    else:
        text = format_answer(answers, now)
    typer.echo(text if output == "table" else encode_as(answers, output))
