"""Pods that the process node can run tolerate that it pulls no images."""

from collections.abc import Callable

from kilonova.api.imagetaint import TOLERATION
from kilonova.api.json import JsonObject
from kilonova.local.admission.chain import Attributes
from kilonova.local.controllers.nodes.imagetaint import (
    all_containers,
    has_toleration,
    needs_toleration,
)
from kilonova.local.kinds.walk import objects
from kilonova.local.storage import Collection


class ImageTolerations:
    """Adds the toleration to new pods, by the rules of `imagetaint`.

    `nodes` are the Nodes, as stored; `node` names the process node, if there is one; `can_run` says
    whether this machine has what the containers of a pod execute.
    """

    def __init__(
        self,
        nodes: Collection,
        node: Callable[[], str],
        can_run: Callable[[JsonObject], bool],
    ) -> None:
        self._nodes = nodes
        self._node = node
        self._can_run = can_run

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
        if needs_toleration(spec, name, found.labels, self._can_run):
            spec["tolerations"] = [*objects(spec, "tolerations"), {**TOLERATION}]
        elif len(self._nodes) == 1 and not spec.get("nodeName") and not has_toleration(spec):
            _warn(attributes, name, spec)


def _warn(attributes: Attributes, node: str, spec: JsonObject) -> None:
    """Say at once why the pod will stay Pending: there is no node but one that pulls no images."""
    bare = [each.get("name", "") for each in all_containers(spec) if not each.get("command")]
    if bare:
        problem, fix = f'container "{bare[0]}" has no command', "a command"
    else:
        problem = "the command of a container is not found on this machine"
        fix = "a command that this machine has"
    text = (
        f"{problem}: node {node} runs commands of this machine and pulls no images, and there is "
        f"no other node; give every container {fix}, or start simulated nodes (kilonova up "
        "--nodes small)"
    )
    if text not in attributes.warnings:
        attributes.warnings.append(text)
