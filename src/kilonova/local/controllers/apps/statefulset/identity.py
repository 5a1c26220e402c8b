"""Who the pods of a StatefulSet are: names, labels, host names, claims. Pure.

Their numbers are read from their names: the name is what makes a pod one of the set, also when
it was made by somebody else.
"""

import re

from kilonova.api.json import JsonObject
from kilonova.local.controllers.apps.hands import pod_of_template
from kilonova.local.controllers.apps.objects import STATEFUL_SETS, StatefulSet
from kilonova.local.controllers.objects import Pod
from kilonova.local.kinds.walk import objects, part

POD_NAME = "statefulset.kubernetes.io/pod-name"
POD_INDEX = "apps.kubernetes.io/pod-index"
REVISION_HASH = "controller-revision-hash"

_numbered = re.compile("(.*)-([0-9]+)", re.DOTALL).fullmatch


def ordinal_of(stateful_set: StatefulSet, pod_name: str) -> int | None:
    """The number of a pod of the set; None where the name is not one of the set's."""
    found = _numbered(pod_name)
    if found is None or found[1] != stateful_set.metadata.name:
        return None
    return int(found[2]) if len(found[2]) < 10 else None


def pod_name(stateful_set: StatefulSet, ordinal: int) -> str:
    return f"{stateful_set.metadata.name}-{ordinal}"


def claim_name(stateful_set: StatefulSet, claim: JsonObject, ordinal: int) -> str:
    return f"{claim['metadata']['name']}-{pod_name(stateful_set, ordinal)}"


def identity_labels(name: str, ordinal: int) -> dict[str, str]:
    """The labels that say which of the pods this is."""
    return {POD_NAME: name, POD_INDEX: str(ordinal)}


def has_identity(pod: Pod) -> bool:
    return pod.metadata.labels.get(POD_NAME) == pod.metadata.name


def revision_of(pod: Pod) -> str:
    return pod.metadata.labels.get(REVISION_HASH, "")


def stateful_pod(
    stateful_set: StatefulSet, template: JsonObject, revision: str, ordinal: int
) -> JsonObject:
    """The pod of that number, as a template makes it."""
    name = pod_name(stateful_set, ordinal)
    pod = pod_of_template(template, STATEFUL_SETS, stateful_set.metadata, name=name)
    pod["metadata"]["labels"] |= {REVISION_HASH: revision, **identity_labels(name, ordinal)}
    spec = pod["spec"]
    claims = {
        claim["metadata"]["name"]: claim_name(stateful_set, claim, ordinal)
        for claim in stateful_set.spec.volume_claim_templates
    }
    own = [volume for volume in objects(spec, "volumes") if volume["name"] not in claims]
    mounted = [
        {"name": volume, "persistentVolumeClaim": {"claimName": claimed}}
        for volume, claimed in claims.items()
    ]
    pod["spec"] = {**spec, "hostname": name, "subdomain": stateful_set.spec.service_name}
    if mounted or own:
        pod["spec"]["volumes"] = mounted + own
    return pod


def claims_of(stateful_set: StatefulSet, ordinal: int) -> list[JsonObject]:
    """The claims of the pod of that number, as the templates make them."""
    labels = part(stateful_set.spec.selector, "matchLabels")
    return [
        {
            "metadata": {
                **claim["metadata"],
                "name": claim_name(stateful_set, claim, ordinal),
                "labels": {**part(claim, "metadata", "labels"), **labels},
            },
            "spec": claim.get("spec") or {},
        }
        for claim in stateful_set.spec.volume_claim_templates
    ]
