"""Events of core/v1."""

import msgspec

from kilonova.console.objects.metadata import ObjectMeta
from kilonova.kube import Resource


class EventMeta(ObjectMeta, frozen=True, gc=False, rename="camel", kw_only=True):
    """Metadata of an event."""

    namespace: str = ""


class InvolvedObject(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The object of an event."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""


class EventSource(msgspec.Struct, frozen=True, gc=False):
    """The component that reported an event."""

    component: str = ""


class EventSeries(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A series of events."""

    count: int = 0
    last_observed_time: str | None = None


class Event(msgspec.Struct, gc=False, rename="camel"):
    """A core/v1 event."""

    metadata: EventMeta
    involved_object: InvolvedObject = InvolvedObject()
    type: str = "Normal"
    reason: str = ""
    message: str = ""
    count: int = 0
    series: EventSeries | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    source: EventSource = EventSource()
    reporting_component: str = ""


EVENTS = Resource("", "v1", "events", "Event", True, Event)
