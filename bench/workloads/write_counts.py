"""The operator's writes, as counted by kube-apiserver's metrics.

The metrics do not contain the client. Counted are writes that no other component makes: others bind
pods, write statuses of pods and nodes, and write endpoints and leases.
"""

import re
from collections import Counter

from tests.harness.access import ServerAccess

_METRIC_LINE = re.compile(
    r"^apiserver_request_total\{(?P<labels>.*)\} (?P<count>\S+)$", re.MULTILINE
)
_METRIC_LABEL = re.compile(r'(\w+)="([^"]*)"')
_OPERATOR_GROUPS = ("grove.io", "scheduler.grove.io")
_OPERATOR_CORE_RESOURCES = frozenset({"pods", "services", "controllerrevisions"})
_WRITES = frozenset({"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"})

WriteCounts = Counter[tuple[str, str]]
"""By resource (`podcliques`, `podcliques/status`) and verb."""


def fetch_write_counts(access: ServerAccess) -> WriteCounts:
    """All accepted writes since the server started."""
    return parse_write_counts(access.request("GET", "/metrics")[1])


def parse_write_counts(exposition: str) -> WriteCounts:
    """The accepted writes in the server's metrics."""
    result: WriteCounts = Counter()
    for found in _METRIC_LINE.finditer(exposition):
        labels = dict(_METRIC_LABEL.findall(found["labels"]))
        if (
            labels["verb"] in _WRITES
            and labels["code"].startswith("2")
            and _is_operator_write(labels)
        ):
            part = f"/{labels['subresource']}" if labels["subresource"] else ""
            result[labels["resource"] + part, labels["verb"]] += int(float(found["count"]))
    return result


def _is_operator_write(labels: dict[str, str]) -> bool:
    if labels["group"] in _OPERATOR_GROUPS:
        return True
    return labels["resource"] in _OPERATOR_CORE_RESOURCES and not labels["subresource"]
