"""The headless Service through which the pods of a replica resolve each other."""

from kilonova.api.grove import PodCliqueSet, names
from kilonova.api.json import JsonObject
from kilonova.workloads.builders.labels import build_owned_metadata, build_replica_labels


def build_service(set_: PodCliqueSet, index: int) -> JsonObject:
    """The headless Service of a replica: no ports, and all pods of the replica."""
    set_name = set_.metadata.name
    name = names.replica(set_name, index)
    config = set_.spec.template.headless_service_config
    labels = build_replica_labels(set_name, index, names.HEADLESS_SERVICE_COMPONENT, name)
    return {
        "metadata": build_owned_metadata(set_, name, labels),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": config is None or config.publish_not_ready_addresses,
            "selector": {names.PART_OF: set_name, names.SET_REPLICA_INDEX: str(index)},
        },
    }
