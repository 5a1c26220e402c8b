"""What the controllers are constructed with."""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from kilonova.api.serving import InferenceService
from kilonova.kube import NO_RUNTIME_METRICS, Client, RuntimeMetrics
from kilonova.kube.events import EventRecorder, ObjectReference, random_id
from kilonova.serving.caches import Caches
from kilonova.serving.gateway.model import ControlPlaneAddress
from kilonova.serving.resources import get_source_kind
from kilonova.serving.settings import ServingSettings

TOKEN_BYTES = 32


def _utc_now() -> datetime:
    return datetime.now(UTC)


def _new_token() -> str:
    return secrets.token_urlsafe(TOKEN_BYTES)


@dataclass(frozen=True, slots=True)
class ServingContext:
    """Client, caches, clocks and settings. `now` is the wall clock, `monotonic` never goes
    backwards, `new_id` makes names unique, `new_token` makes tokens of gateways."""

    client: Client
    caches: Caches
    recorder: EventRecorder
    settings: ServingSettings
    get_control_plane: Callable[[], ControlPlaneAddress]
    """Where gateways reach the control plane now: its certificate authority is renewed."""
    now: Callable[[], datetime] = _utc_now
    monotonic: Callable[[], float] = time.monotonic
    runtime_metrics: RuntimeMetrics = NO_RUNTIME_METRICS
    new_id: Callable[[], str] = random_id
    new_token: Callable[[], str] = field(default=_new_token, repr=False)

    def refer_to(self, service: InferenceService) -> ObjectReference:
        """What events of a service are about: the object that its user wrote."""
        known = service.metadata
        kind = get_source_kind(self.settings)
        return ObjectReference.to(kind, known.name, known.namespace, known.uid)
