"""Shell completion of names of instances and deployments."""

import typer

from kilonova.component.command.name_completion import ResourceTuple, complete_names

_GROUP, _VERSION = "inference-engine.groq.io", "v1"
_INSTANCES: ResourceTuple = (
    _GROUP,
    _VERSION,
    "inferenceengineinstances",
    "InferenceEngineInstance",
    True,
)
_DEPLOYMENTS: ResourceTuple = (
    _GROUP,
    _VERSION,
    "inferenceenginedeployments",
    "InferenceEngineDeployment",
    True,
)


def complete_instances(context: typer.Context, incomplete: str) -> list[str]:
    """Names of instances of the namespace with this prefix."""
    return complete_names(incomplete, context.params, (_INSTANCES,))


def complete_deployments(context: typer.Context, incomplete: str) -> list[str]:
    """Names of deployments of the namespace with this prefix."""
    return complete_names(incomplete, context.params, (_DEPLOYMENTS,))
