"""Events: what a controller tells people about an object, seen by `kubectl describe`.

- An **occurrence** is one thing that happened: `recorder.event(pod, "Bound", "…")`.
- A **series** is one Event in the API. Equal occurrences are counted in it, and beyond ten
  different messages of one reason in ten minutes the rest is folded into one series.

Written as core/v1 Events, with first and last time, count and both fields for the source: the
one shape that all of `kubectl describe`, `kubectl events` and the habitual
`kubectl get events --sort-by=.lastTimestamp` show completely. events.k8s.io/v1 refuses
`lastTimestamp` and `count`, and such Events sort as if they had no time. The server keeps both
as one kind.
"""

from kilonova.kube.events.recorder import Recorder, random_id
from kilonova.kube.events.series import Limits, Reference

__all__ = ["Limits", "Recorder", "Reference", "random_id"]
