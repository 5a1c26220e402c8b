"""Builders of set manifests as users write them, and of changes by path."""

import copy
import itertools
import re
from typing import Any

JsonObject = dict[str, Any]
_step = re.compile(r"([\w-]+)|\[(\d+)\]")


def clique(name: str, replicas: int = 1, **spec: Any) -> JsonObject:
    pods = {"containers": [{"name": "main", "image": "busybox"}]}
    return {
        "name": name,
        "spec": {"roleName": f"{name}-role", "replicas": replicas, "podSpec": pods, **spec},
    }


def group(name: str, *members: str, **more: Any) -> JsonObject:
    return {"name": name, "cliqueNames": list(members), **more}


def pod_clique_set(
    *cliques: JsonObject, groups: Any = (), name: Any = "set", **template: Any
) -> JsonObject:
    """A set; fields that are not given are omitted."""
    chosen = list(cliques or (clique("a"),))
    body = {"cliques": chosen, **template}
    if groups:
        body["podCliqueScalingGroups"] = list(groups)
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": 1, "template": body},
    }


def set_field(obj: JsonObject, path: str, value: Any) -> JsonObject:
    """A copy with one field set: `spec.template.cliques[0].spec.replicas`. None removes it."""
    changed = copy.deepcopy(obj)
    steps = [name or int(index) for name, index in _step.findall(path)]
    at: Any = changed
    for step, following in itertools.pairwise(steps):
        if isinstance(at, dict):
            at = at.setdefault(step, [] if isinstance(following, int) else {})
        else:
            at = at[step]
    if value is None:
        del at[steps[-1]]
    elif isinstance(at, list) and steps[-1] == len(at):
        at.append(value)
    else:
        at[steps[-1]] = value
    return changed
