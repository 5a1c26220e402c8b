"""The headless Service under which the pods of a replica find each other."""

from kilonova.api.grove import PodCliqueSet, names
from kilonova.api.json import JsonObject
from kilonova.workloads.templates.labels import owned_by_set, replica_labels


def service_object(set_: PodCliqueSet, index: int) -> JsonObject:
    """The Service of a replica: no ports, no address of its own, all of the replica's pods."""
    set_name = set_.metadata.name
    name = names.replica(set_name, index)
    config = set_.spec.template.headless_service_config
    labels = replica_labels(set_name, index, names.HEADLESS_SERVICE_COMPONENT, name)
    return {
        "metadata": owned_by_set(set_, name, labels),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": config is None or config.publish_not_ready_addresses,
            "selector": {names.PART_OF: set_name, names.SET_REPLICA_INDEX: str(index)},
        },
    }
