"""Shell completion of names of clusters and deployments."""

import typer

from kilonova.component.command.name_completion import ResourceTuple, complete_names

_CLUSTERS: ResourceTuple = ("fleet.kilonova.dev", "v1alpha1", "clusters", "Cluster", False)
_DEPLOYMENTS: ResourceTuple = (
    "inference-engine.groq.io",
    "v1",
    "deployments",
    "Deployment",
    True,
)


def complete_clusters(context: typer.Context, incomplete: str) -> list[str]:
    """Names of clusters with this prefix."""
    return complete_names(incomplete, context.params, (_CLUSTERS,))


def complete_deployments(context: typer.Context, incomplete: str) -> list[str]:
    """Names of deployments of the namespace with this prefix."""
    return complete_names(incomplete, context.params, (_DEPLOYMENTS,))
