"""SuperSONIC's users: their values files, their chart, and their dashboards.

`convert_values` turns the values of a release into an InferenceService named as the release, with
the group of servers `triton`; the gateway answers at `RELEASE.NAMESPACE.svc.cluster.local:8001`, as
theirs does. `keys` is the table of all their keys: each is honoured, without effect (and then
reported), or refused with the reason. The chart `deploy/helm/supersonic`, its schema and the
reference of keys are made from the same table.
"""

from kilonova.serving.supersonic.conversion import Conversion, convert_values, read_values
from kilonova.serving.supersonic.findings import ValuesError

__all__ = ["Conversion", "ValuesError", "convert_values", "read_values"]
