"""PodCliqueScalingGroup objects."""

from kilonova.api.grove import PodCliqueSet, ScalingGroupTemplate, names
from kilonova.api.json import JsonObject
from kilonova.workloads.builders.labels import build_owned_metadata, build_replica_labels
from kilonova.workloads.builders.propagated_metadata import record_propagated_keys
from kilonova.workloads.builders.sparse_json import to_sparse_json
from kilonova.workloads.revisions import SetRevision


def build_scaling_group(
    set_: PodCliqueSet, index: int, revision: SetRevision, template: ScalingGroupTemplate
) -> JsonObject:
    """A scaling group of a replica, as it is created."""
    name = names.scaling_group(set_.metadata.name, index, template.name)
    labels = build_replica_labels(set_.metadata.name, index, names.SCALING_GROUP_COMPONENT, name)
    spec: JsonObject = {
        "cliqueNames": list(template.clique_names),
        "replicas": template.replicas,
        "minAvailable": template.min_available,
    }
    if template.rolling_update is not None:
        spec["rollingUpdate"] = to_sparse_json(template.rolling_update)
    return {
        "metadata": {
            **build_owned_metadata(
                set_,
                name,
                {**labels, names.GENERATION_HASH: revision.hash},
                record_propagated_keys(labels=(), annotations=template.annotations),
            ),
            "finalizers": [names.SCALING_GROUP_FINALIZER],
        },
        "spec": spec,
    }
