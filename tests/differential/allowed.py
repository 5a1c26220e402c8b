"""Where the embedded API may answer otherwise than Kubernetes, and why that is right."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    """`path` under the step's answer (a glob), in the cases whose `topic: name` fits `case`."""

    case: str
    path: str
    why: str


_NEEDS_A_KUBELET = (
    "exec, attach, port-forward and proxy need a node's own server, which comes later"
)
_PARSER = "the words of the YAML or base64 parser, which is not Go's"
_AT_ONCE = "names are accepted in the write that brings a definition, not by a controller after it"
_OWN_WORDS = "descriptions of parameters are our own sentences"
_ETCD = "Kubernetes shows its key in etcd"

ALLOWED: tuple[Difference, ...] = (
    *(
        Difference("discovery: *", path.format(name), _NEEDS_A_KUBELET)
        for name in ("exec", "attach", "portforward", "proxy")
        for path in ("body.resources.*/{}", "body.items.*.subresources.{}")
    ),
    Difference("apply: a manifest that is no YAML", "body.message", _PARSER),
    Difference("negotiation: a body that is no YAML", "body.message", _PARSER),
    Difference("lists: a page after nothing", "body.message", _PARSER),
    Difference("update: another object of the same name", "body.message", _ETCD),
    Difference("openapi: the index*", "body.paths*.parameters.*.description", _OWN_WORDS),
    Difference("custom: a definition and its discovery", "body.status", _AT_ONCE),
)
