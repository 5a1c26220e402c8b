"""What a gRPC server grants its clients, and how both notice that the other is gone."""

from dataclasses import dataclass, field

ChannelOptions = tuple[tuple[str, int | str], ...]
"""Options of gRPC's core, by name."""


@dataclass(frozen=True, slots=True)
class Keepalive:
    """When the other side of a connection is asked whether it is there, in seconds."""

    idle: float = 60.0
    """After this time without traffic."""
    timeout: float = 20.0
    """Without an answer for this long, the connection is closed."""

    def to_options(self) -> ChannelOptions:
        """The options of a server or a channel."""
        return (
            ("grpc.keepalive_time_ms", to_milliseconds(self.idle)),
            ("grpc.keepalive_timeout_ms", to_milliseconds(self.timeout)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """Sizes in bytes, times in seconds."""

    max_request_bytes: int = 4 * 1024 * 1024
    max_reply_bytes: int = 4 * 1024 * 1024
    max_streams_per_connection: int = 100
    max_concurrent_rpcs: int = 1000
    """RPCs at a time, over all connections; further ones are answered with RESOURCE_EXHAUSTED."""
    max_pending_rpcs: int = 10_000
    """RPCs that have arrived and that the event loop has not begun yet. gRPC cancels further ones,
    and without this option some of those beyond 1,000."""
    max_unary_seconds: float = 60.0
    """How long an RPC with one reply may take, whatever the client's deadline."""
    keepalive: Keepalive = field(default_factory=Keepalive)
    min_ping_interval: float = 10.0
    """Clients that ask more often than this are disconnected."""
    max_connection_age: float = 3600.0
    """Connections are renewed after this time: clients notice new certificates and servers."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value: object = getattr(self, name)
            if isinstance(value, int | float) and value <= 0:
                raise ValueError(f"{name} is {value}: it must be positive")

    def to_options(self, grace: float) -> ChannelOptions:
        """The options of a server; `grace` is for RPCs on a connection that is being renewed."""
        return (
            ("grpc.max_receive_message_length", self.max_request_bytes),
            ("grpc.max_send_message_length", self.max_reply_bytes),
            ("grpc.max_concurrent_streams", self.max_streams_per_connection),
            ("grpc.server.max_pending_requests", self.max_pending_rpcs),
            ("grpc.server.max_pending_requests_hard_limit", self.max_pending_rpcs),
            *self.keepalive.to_options(),
            ("grpc.keepalive_permit_without_calls", 1),
            (
                "grpc.http2.min_ping_interval_without_data_ms",
                to_milliseconds(self.min_ping_interval),
            ),
            ("grpc.max_connection_age_ms", to_milliseconds(self.max_connection_age)),
            ("grpc.max_connection_age_grace_ms", to_milliseconds(grace)),
            # Two servers on one port would share its connections.
            ("grpc.so_reuseport", 0),
        )


def to_milliseconds(seconds: float) -> int:
    """A time as options have it."""
    return max(1, round(seconds * 1000))
