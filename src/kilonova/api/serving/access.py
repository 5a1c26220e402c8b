"""Who may use an InferenceService, and how much."""

from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from kilonova.api.serving.common import DnsLabel, Duration, PositiveInt, Ratio, SecretKey
from kilonova.api.validation_rules import ValidationRule


class JwtProvider(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """An issuer of JSON web tokens."""

    RULES: ClassVar = (
        ValidationRule(
            "has(self.jwksUri) != has(self.jwksSecret)",
            "set exactly one of jwksUri and jwksSecret",
        ),
    )

    name: DnsLabel
    """The name of the provider."""
    issuer: Annotated[str, Meta(min_length=1, max_length=2048)]
    """The issuer (`iss`) of its tokens."""
    audiences: Annotated[tuple[str, ...], Meta(max_length=64)] = ()
    """A token must be for one of these audiences (`aud`); empty for any."""
    jwks_uri: Annotated[str, Meta(pattern="^https?://", max_length=2048)] | None = None
    """The URL of its public keys; the gateway fetches them, and keeps them if it is away."""
    jwks_secret: SecretKey | None = None
    """Its public keys in a Secret, by default under `jwks.json`."""
    client_claim: Annotated[str, Meta(extra={"default": "sub"})] = "sub"
    """The claim that identifies a client, for limits."""


class ApiKeys(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Keys that clients send as `Authorization: Bearer KEY` or in a header."""

    secret: Annotated[str, Meta(min_length=1, max_length=253)]
    """A Secret with a key of its data per client: the name of the client, and `sha256:` with the
    digest of its API key in hexadecimal. `kilonova serve key` makes keys."""
    header: Annotated[str, Meta(max_length=256, extra={"default": "x-api-key"})] = "x-api-key"
    """The header, beside `Authorization`."""


class Auth(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """A request needs a valid token or key of any kind that is set here; that is checked before
    anything else. Client certificates are set in `gateway.tls`."""

    jwt: Annotated[
        tuple[JwtProvider, ...], Meta(max_length=16, extra={"list": "map", "keys": ["name"]})
    ] = ()
    api_keys: ApiKeys | None = None


class RateLimit(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """A token bucket."""

    per_minute: PositiveInt
    """What is added each minute, evenly."""
    burst: PositiveInt | None = None
    """The size of the bucket. Defaults to `perMinute`."""


class ConnectionRate(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """New connections of a gateway, as a token bucket: SuperSONIC's `listener_level`."""

    burst: PositiveInt
    """The size of the bucket."""
    per_fill: PositiveInt
    """What is added each time."""
    fill_interval: Duration
    """The time between two additions."""


class ClientLimit(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Limits of some client, instead of those of every client."""

    client: Annotated[str, Meta(min_length=1, max_length=253)]
    """The name of an API key, or the claim of a token."""
    requests: RateLimit | None = None
    tokens: RateLimit | None = None


class LoadLimit(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Requests are refused as exhausted, with a hint when to try again, while the load is high."""

    in_flight_per_replica: PositiveInt | None = None
    """The requests in flight and queued, per ready server."""
    queue_time: Duration | None = None
    """The time in the queue of servers, averaged over the last seconds."""
    query: Annotated[str, Meta(max_length=4096)] = ""
    """A PromQL expression; its greatest value counts. A missing value means that requests are
    accepted."""
    threshold: Annotated[Ratio, Meta(extra={"default": 0})] = 0
    """The value of the expression above which requests are refused."""
    prometheus: str = ""
    """The URL of Prometheus. Defaults to that of the installation."""
    retry_after: Annotated[Duration, Meta(extra={"default": "1s"})] = "1s"
    """The hint."""
    job_admission: Annotated[bool, Meta(extra={"default": False})] = False
    """Whether only requests for the repository index are refused, by which clients such as those of
    SONIC ask whether they may start; jobs that run are not disturbed."""


class Limits(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Limits. Those of clients are enforced by each gateway, for its part of the whole."""

    connections: PositiveInt | None = None
    """The connections that are open at the same time, of all clients together."""
    connection_rate: ConnectionRate | None = None
    requests: RateLimit | None = None
    """Requests of each client; without auth a client is an address."""
    tokens: RateLimit | None = None
    """Tokens (prompt and completion) of each client of the OpenAI API, as servers count them."""
    clients: Annotated[
        tuple[ClientLimit, ...], Meta(max_length=256, extra={"list": "map", "keys": ["client"]})
    ] = ()
    max_body_bytes: Annotated[int, Meta(ge=0, extra={"format": "int64"})] | None = None
    """The size of a request. Defaults to no limit."""
    load: LoadLimit | None = None


__all__ = [
    "ApiKeys",
    "Auth",
    "ClientLimit",
    "ConnectionRate",
    "JwtProvider",
    "Limits",
    "LoadLimit",
    "RateLimit",
]
