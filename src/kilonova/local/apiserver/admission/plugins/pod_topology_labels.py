"""Copies the zone and region labels of the node to a pod when it is bound."""

from collections.abc import Mapping

from kilonova.local.apimachinery.unstructured import nested_object
from kilonova.local.apiserver.admission.chain import Attributes
from kilonova.local.apiserver.storage import Collection

_TOPOLOGY_LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


class PodTopologyLabels:
    """`nodes` are the stored Nodes."""

    def __init__(self, nodes: Collection) -> None:
        self._nodes = nodes

    async def mutate(self, attributes: Attributes) -> None:
        obj, target = attributes.obj, attributes.target
        if obj is None or attributes.operation != "CREATE" or target.kind.group:
            return
        if target.kind.plural == "pods" and not target.subresource:
            name = nested_object(obj, "spec").get("nodeName", "")
        elif target.kind.plural == "bindings" or target.subresource == "binding":
            name = nested_object(obj, "target").get("name", "")
        else:
            return
        if labels := self._topology_labels(name):
            metadata = obj.setdefault("metadata", {})
            metadata["labels"] = {**nested_object(metadata, "labels"), **labels}

    def _topology_labels(self, node: str) -> Mapping[str, str]:
        found = self._nodes.get(node) if node else None
        if found is None:
            return {}
        return {label: found.labels[label] for label in _TOPOLOGY_LABELS if label in found.labels}
