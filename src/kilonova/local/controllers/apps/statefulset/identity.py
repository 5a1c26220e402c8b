"""The identity of StatefulSet pods: names, labels, host names, claims. Pure.

Ordinals are parsed from names: as in Kubernetes the name makes a pod a member of the StatefulSet,
also if another client created it.
"""

import re

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.unstructured import nested_object, nested_objects
from kilonova.local.controllers.apps.objects import STATEFUL_SETS, StatefulSet
from kilonova.local.controllers.apps.pod_control import build_pod_from_template
from kilonova.local.objects.core import Pod

POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
POD_INDEX_LABEL = "apps.kubernetes.io/pod-index"
REVISION_LABEL = "controller-revision-hash"

_match_ordinal = re.compile("(.*)-([0-9]+)", re.DOTALL).fullmatch


def parse_ordinal(stateful_set: StatefulSet, pod_name: str) -> int | None:
    """The ordinal of a pod; None if the name does not belong to the StatefulSet."""
    found = _match_ordinal(pod_name)
    if found is None or found[1] != stateful_set.metadata.name:
        return None
    return int(found[2]) if len(found[2]) < 10 else None


def pod_name(stateful_set: StatefulSet, ordinal: int) -> str:
    return f"{stateful_set.metadata.name}-{ordinal}"


def claim_name(stateful_set: StatefulSet, claim: JsonObject, ordinal: int) -> str:
    return f"{claim['metadata']['name']}-{pod_name(stateful_set, ordinal)}"


def identity_labels(name: str, ordinal: int) -> dict[str, str]:
    """The labels that identify the pod."""
    return {POD_NAME_LABEL: name, POD_INDEX_LABEL: str(ordinal)}


def has_identity(pod: Pod) -> bool:
    return pod.metadata.labels.get(POD_NAME_LABEL) == pod.metadata.name


def revision_of(pod: Pod) -> str:
    return pod.metadata.labels.get(REVISION_LABEL, "")


def build_stateful_pod(
    stateful_set: StatefulSet, template: JsonObject, revision: str, ordinal: int
) -> JsonObject:
    """The pod of that ordinal, from a template."""
    name = pod_name(stateful_set, ordinal)
    pod = build_pod_from_template(template, STATEFUL_SETS, stateful_set.metadata, name=name)
    pod["metadata"]["labels"] |= {REVISION_LABEL: revision, **identity_labels(name, ordinal)}
    spec = pod["spec"]
    claims = {
        claim["metadata"]["name"]: claim_name(stateful_set, claim, ordinal)
        for claim in stateful_set.spec.volume_claim_templates
    }
    own = [volume for volume in nested_objects(spec, "volumes") if volume["name"] not in claims]
    mounted = [
        {"name": volume, "persistentVolumeClaim": {"claimName": claimed}}
        for volume, claimed in claims.items()
    ]
    pod["spec"] = {**spec, "hostname": name, "subdomain": stateful_set.spec.service_name}
    if mounted or own:
        pod["spec"]["volumes"] = mounted + own
    return pod


def build_claims(stateful_set: StatefulSet, ordinal: int) -> list[JsonObject]:
    """The claims of the pod of that ordinal, from the claim templates."""
    labels = nested_object(stateful_set.spec.selector, "matchLabels")
    return [
        {
            "metadata": {
                **claim["metadata"],
                "name": claim_name(stateful_set, claim, ordinal),
                "labels": {**nested_object(claim, "metadata", "labels"), **labels},
            },
            "spec": claim.get("spec") or {},
        }
        for claim in stateful_set.spec.volume_claim_templates
    ]
