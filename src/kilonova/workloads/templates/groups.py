"""PodCliqueScalingGroup objects."""

from kilonova.api.grove import PodCliqueSet, ScalingGroupTemplate, names
from kilonova.api.json import JsonObject
from kilonova.workloads.revisions import SetRevision
from kilonova.workloads.templates.labels import owned_by_set, replica_labels
from kilonova.workloads.templates.marks import noted
from kilonova.workloads.templates.plain import written


def group_object(
    set_: PodCliqueSet, index: int, revision: SetRevision, template: ScalingGroupTemplate
) -> JsonObject:
    """A scaling group of a replica, as it is created."""
    name = names.scaling_group(set_.metadata.name, index, template.name)
    labels = replica_labels(set_.metadata.name, index, names.SCALING_GROUP_COMPONENT, name)
    spec: JsonObject = {
        "cliqueNames": list(template.clique_names),
        "replicas": template.replicas,
        "minAvailable": template.min_available,
    }
    if template.rolling_update is not None:
        spec["rollingUpdate"] = written(template.rolling_update)
    return {
        "metadata": {
            **owned_by_set(
                set_,
                name,
                {**labels, names.GENERATION_HASH: revision.hash},
                noted(labels=(), annotations=template.annotations),
            ),
            "finalizers": [names.SCALING_GROUP_FINALIZER],
        },
        "spec": spec,
    }
