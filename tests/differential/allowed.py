"""Where the embedded API may answer otherwise than Kubernetes, and why that is right."""

from dataclasses import dataclass
from fnmatch import fnmatchcase

from tests.differential.case import Case


@dataclass(frozen=True)
class Difference:
    """`path` under the step's answer (a glob), in the cases whose `topic: name` fits `case`."""

    case: str
    path: str
    why: str

    def covers(self, case: Case) -> bool:
        return fnmatchcase(str(case), self.case)


_PARSER = "the words of the YAML or base64 parser, which is not Go's"
_AT_ONCE = "names are accepted in the write that brings a definition, not by a controller after it"
_OWN_WORDS = "descriptions of parameters are our own sentences"
_CONVERTER = "Go's converter gives up before its decoder does, in other words"
_REFUSED_ANYWAY = "Kubernetes warns of fields in an object that it refuses for another reason"
_ENUMERATIONS = "the values of a field are judged, and not yet listed in its schema"
_NOT_ENFORCED = "a cluster that does not enforce NetworkPolicies says so"
_ETCD = "Kubernetes shows its key in etcd"

ALLOWED: tuple[Difference, ...] = (
    Difference("apply: a manifest that is no YAML", "body.message", _PARSER),
    Difference("negotiation: a body that is no YAML", "body.message", _PARSER),
    Difference("kinds: network policies*", "headers.warning", _NOT_ENFORCED),
    Difference("lists: a page after nothing", "body.message", _PARSER),
    Difference("update: another object of the same name", "body.message", _ETCD),
    Difference("openapi: the index*", "body.paths*.parameters.*.description", _OWN_WORDS),
    Difference("openapi: kubectl explains a field that*", "out", _ENUMERATIONS),
    Difference("patch: strategic patches of another type", "body.message", _CONVERTER),
    Difference("patch: strategic patches of another type", "body.details", _CONVERTER),
    Difference("custom: an object of another version", "headers.warning", _REFUSED_ANYWAY),
    *(
        Difference("custom: a definition and its discovery", f"body.{path}", _AT_ONCE)
        for path in ("status", "metadata.managedFields", "metadata.resourceVersion")
    ),
    Difference(
        "discovery: the legacy lists of the groups*",
        "body.resources.customresourcedefinitions.storageVersionHash",
        "Kubernetes stores definitions in a version that it no longer serves",
    ),
    Difference(
        "records: what every namespace*",
        "body.metadata.annotations",
        "the note on the certificate says as much in other words",
    ),
    Difference(
        "records: what every namespace*",
        "body.metadata.managedFields.*.manager",
        "a part of the server wrote it, not kube-controller-manager",
    ),
)
