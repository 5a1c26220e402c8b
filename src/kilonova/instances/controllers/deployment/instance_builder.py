"""The instances of a deployment as objects to create. Pure."""

import hashlib

from kilonova.api.group_kinds import get_well_known
from kilonova.api.grove import names as grove_names
from kilonova.api.inference_engine import InferenceEngineDeployment, names
from kilonova.api.json import JsonObject
from kilonova.api.pods.workload_owner import Owned, find_workload, workload_metadata
from kilonova.instances.controllers.deployment.revisions import (
    DeploymentRevision,
    encode_template,
)
from kilonova.instances.resources import DEPLOYMENTS, INSTANCES
from kilonova.kube.owner_references import build_owner_reference

_DEPLOYMENT_KIND = get_well_known(DEPLOYMENTS.kind)
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""Without vowels, as in Kubernetes: no suffix is a word."""


def build_instance(
    deployment: InferenceEngineDeployment, revision: DeploymentRevision, id_: str
) -> JsonObject:
    """An instance; `id_` makes its name unique."""
    known = deployment.metadata
    workload = find_workload(Owned.from_metadata(_DEPLOYMENT_KIND, known))
    labels, annotations = workload_metadata(workload)
    managed = known.labels.get(names.GLOBAL_DEPLOYMENT)
    return {
        "apiVersion": INSTANCES.api_version,
        "kind": INSTANCES.kind,
        "metadata": {
            "name": names.instance(known.name, build_suffix(id_)),
            "namespace": known.namespace,
            "labels": {
                **labels,
                grove_names.MANAGED_BY: names.MANAGER,
                names.DEPLOYMENT: known.name,
                names.TEMPLATE_HASH: revision.hash,
                **({names.RELEASE: revision.release} if revision.release else {}),
                **({names.GLOBAL_DEPLOYMENT: managed} if managed else {}),
            },
            "annotations": annotations,
            "ownerReferences": [build_owner_reference(DEPLOYMENTS, known)],
        },
        "spec": encode_template(revision.template.spec),
    }


def build_suffix(id_: str) -> str:
    """The end of an instance's name."""
    digest = hashlib.sha256(id_.encode()).digest()
    return "".join(_ALPHABET[each % len(_ALPHABET)] for each in digest[: names.SUFFIX_LENGTH])
