"""What the operator writes, as kube-apiserver counts it.

The server does not tell who asked. What is counted is what nobody else on the stage does: others
bind pods, tell how pods and nodes are, and keep endpoints and leases.
"""

import re
from collections import Counter

from tests.harness.access import Access

_LINE = re.compile(r"^apiserver_request_total\{(?P<labels>.*)\} (?P<count>\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_OWN_GROUPS = ("grove.io", "scheduler.grove.io")
_OWN_PLAIN = frozenset({"pods", "services", "controllerrevisions"})
_WRITES = frozenset({"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"})

Writes = Counter[tuple[str, str]]
"""By resource (`podcliques`, `podcliques/status`) and verb."""


def writes_so_far(access: Access) -> Writes:
    """All that were accepted since the server began."""
    return writes_in(access.ask("GET", "/metrics")[1])


def writes_in(exposition: str) -> Writes:
    """Those that the server's metrics count as accepted."""
    result: Writes = Counter()
    for found in _LINE.finditer(exposition):
        labels = dict(_LABEL.findall(found["labels"]))
        if labels["verb"] in _WRITES and labels["code"].startswith("2") and _is_own(labels):
            part = f"/{labels['subresource']}" if labels["subresource"] else ""
            result[labels["resource"] + part, labels["verb"]] += int(float(found["count"]))
    return result


def _is_own(labels: dict[str, str]) -> bool:
    if labels["group"] in _OWN_GROUPS:
        return True
    return labels["resource"] in _OWN_PLAIN and not labels["subresource"]
