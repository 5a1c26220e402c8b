"""The ConfigMap with the dashboards of a service, for the sidecar of a Grafana. Pure."""

import json

from kilonova.api.json import JsonObject
from kilonova.api.serving import names
from kilonova.serving.builders.identity import Identity, compute_hash
from kilonova.serving.monitoring import build_serving_board, build_supersonic_board

_LABEL = "grafana_dashboard"
"""By which the sidecar of Grafana's chart finds dashboards."""
_UID_LENGTH = 12


def build_dashboards(identity: Identity, *, has_traces: bool) -> JsonObject:
    """The ConfigMap; with traces, SuperSONIC's dashboard is the variant with a service map. Several
    services of a Grafana have dashboards of their own."""
    # Grafana's limit for an identifier is 40 characters.
    suffix = compute_hash([identity.namespace, identity.name])[:_UID_LENGTH]
    place = f"{identity.namespace}/{identity.name}"
    boards = (
        build_serving_board(f"serving-{suffix}", f"Service {place}"),
        build_supersonic_board(
            f"supersonic-{suffix}", f"SuperSONIC {place}", has_traces=has_traces
        ),
    )
    chosen = {"namespace": identity.namespace, "release": identity.name}
    return {
        "metadata": identity.build_metadata(names.build_dashboards(identity.name), {_LABEL: "1"}),
        "data": {f"{each.uid}.json": json.dumps(each.render(chosen)) for each in boards},
    }
