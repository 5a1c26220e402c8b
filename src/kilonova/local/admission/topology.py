"""A pod says in which zone and region it is: it gets those labels of its node when it is bound."""

from collections.abc import Mapping

from kilonova.local.admission.chain import Attributes
from kilonova.local.kinds.walk import part
from kilonova.local.storage import Collection

_COPIED = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


class PodTopologyLabels:
    """`nodes` are the Nodes, as stored."""

    def __init__(self, nodes: Collection) -> None:
        self._nodes = nodes

    async def mutate(self, attributes: Attributes) -> None:
        obj, target = attributes.obj, attributes.target
        if obj is None or attributes.operation != "CREATE" or target.kind.group:
            return
        if target.kind.plural == "pods" and not target.subresource:
            name = part(obj, "spec").get("nodeName", "")
        elif target.kind.plural == "bindings" or target.subresource == "binding":
            name = part(obj, "target").get("name", "")
        else:
            return
        if labels := self._labels(name):
            metadata = obj.setdefault("metadata", {})
            metadata["labels"] = {**part(metadata, "labels"), **labels}

    def _labels(self, node: str) -> Mapping[str, str]:
        found = self._nodes.get(node) if node else None
        if found is None:
            return {}
        return {label: found.labels[label] for label in _COPIED if label in found.labels}
