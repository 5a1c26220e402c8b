"""Allowed differences between the embedded API and Kubernetes, with reasons."""

from dataclasses import dataclass
from fnmatch import fnmatchcase

from tests.differential.case import Case


@dataclass(frozen=True)
class AllowedDifference:
    """`path` in the response of a step (a glob), in the cases whose `topic: name` matches
    `case`.
    """

    case: str
    path: str
    why: str

    def covers(self, case: Case) -> bool:
        return fnmatchcase(str(case), self.case)


_PARSER_MESSAGE = "the message of the YAML or base64 parser, which is not Go's"
_NAMES_ACCEPTED_AT_ONCE = "names are accepted when a CRD is written, not later by a controller"
_OWN_DESCRIPTIONS = "descriptions of parameters are our own"
_CONVERTER_MESSAGE = "Go's converter fails before its decoder does, with another message"
_REJECTED_ANYWAY = "Kubernetes warns about fields of an object that it rejects for another reason"
_ENUM_VALUES_NOT_LISTED = "the values of a field are validated, but not yet listed in its schema"
_NOT_ENFORCED = "a cluster that does not enforce NetworkPolicies returns a warning"
_ETCD_KEY = "Kubernetes shows its key in etcd"

ALLOWED: tuple[AllowedDifference, ...] = (
    AllowedDifference("apply: a manifest that is no YAML", "body.message", _PARSER_MESSAGE),
    AllowedDifference("negotiation: a body that is no YAML", "body.message", _PARSER_MESSAGE),
    AllowedDifference("kinds: network policies*", "headers.warning", _NOT_ENFORCED),
    AllowedDifference("lists: an invalid continue token", "body.message", _PARSER_MESSAGE),
    AllowedDifference("update: another object of the same name", "body.message", _ETCD_KEY),
    AllowedDifference(
        "openapi: the index*", "body.paths*.parameters.*.description", _OWN_DESCRIPTIONS
    ),
    AllowedDifference("openapi: kubectl explains a field that*", "out", _ENUM_VALUES_NOT_LISTED),
    AllowedDifference(
        "patch: strategic patches of another type", "body.message", _CONVERTER_MESSAGE
    ),
    AllowedDifference(
        "patch: strategic patches of another type", "body.details", _CONVERTER_MESSAGE
    ),
    AllowedDifference("custom: an object of another version", "headers.warning", _REJECTED_ANYWAY),
    *(
        AllowedDifference(
            "custom: a definition and its discovery", f"body.{path}", _NAMES_ACCEPTED_AT_ONCE
        )
        for path in ("status", "metadata.managedFields", "metadata.resourceVersion")
    ),
    AllowedDifference(
        "discovery: the legacy lists of the groups*",
        "body.resources.customresourcedefinitions.storageVersionHash",
        "Kubernetes stores definitions in a version that it no longer serves",
    ),
    AllowedDifference(
        "records: what every namespace*",
        "body.metadata.annotations",
        "the annotation of the certificate has another text",
    ),
    AllowedDifference(
        "records: what every namespace*",
        "body.metadata.managedFields.*.manager",
        "a component of the server wrote it, not kube-controller-manager",
    ),
)
