"""Adds the toleration of the image taint to pods that the process node can run."""

from collections.abc import Callable

from kilonova.api.json import JsonObject
from kilonova.api.nodes.image_taint import TOLERATION
from kilonova.local.apimachinery.unstructured import nested_objects
from kilonova.local.apiserver.admission.chain import Attributes
from kilonova.local.apiserver.storage import Collection
from kilonova.local.objects.image_taint import has_toleration, needs_toleration


class ImageToleration:
    """Adds the toleration to new pods, by the rules of `image_taint`.

    `nodes` are the stored Nodes; `node` is the name of the process node, if there is one; `explain`
    reports why a pod cannot run on this machine, and nothing if it can.
    """

    def __init__(
        self,
        nodes: Collection,
        node: Callable[[], str],
        explain: Callable[[JsonObject], str],
    ) -> None:
        self._nodes = nodes
        self._node = node
        self._explain = explain

    async def mutate(self, attributes: Attributes) -> None:
        target, pod = attributes.target, attributes.obj
        if pod is None or attributes.operation != "CREATE" or target.subresource:
            return
        if (target.kind.group, target.kind.plural) != ("", "pods"):
            return
        name = self._node()
        found = self._nodes.get(name) if name else None
        if found is None:
            return
        spec: JsonObject = pod["spec"]
        if needs_toleration(spec, name, found.labels, lambda pod: not self._explain(pod)):
            spec["tolerations"] = [*nested_objects(spec, "tolerations"), {**TOLERATION}]
        elif len(self._nodes) == 1 and not spec.get("nodeName") and not has_toleration(spec):
            _warn_unschedulable(attributes, name, self._explain(spec))


def _warn_unschedulable(attributes: Attributes, node: str, problem: str) -> None:
    """Warn that the pod will stay Pending: the only node pulls no images."""
    text = (
        f"{problem}: node {node} runs commands of this machine and pulls no images, and there is "
        "no other node; give every container a command that this machine has, define how its image "
        "is run here (kilonova up --images FILE), or start simulated nodes (kilonova up "
        "--nodes small)"
    )
    if text not in attributes.warnings:
        attributes.warnings.append(text)
