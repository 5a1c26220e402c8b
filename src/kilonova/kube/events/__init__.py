"""Events about objects, as shown by `kubectl describe`.

- An **occurrence** is one thing that happened: `recorder.event(pod, "Bound", "…")`.
- A **series** is one Event in the API. Equal occurrences are counted in it; beyond ten different
  messages of one reason in ten minutes, further ones are aggregated into one series.

Written as core/v1 Events, with first and last timestamp, count and both source fields: the one form
that `kubectl describe`, `kubectl events` and the common `kubectl get events
--sort-by=.lastTimestamp` all show completely. events.k8s.io/v1 rejects `lastTimestamp` and `count`,
and such Events sort as if they had no time. The server stores both as one kind.
"""

from kilonova.kube.events.correlator import CorrelatorOptions, ObjectReference
from kilonova.kube.events.recorder import EventRecorder, random_id

__all__ = ["CorrelatorOptions", "EventRecorder", "ObjectReference", "random_id"]
