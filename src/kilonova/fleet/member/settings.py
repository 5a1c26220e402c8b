"""The settings of a member's agent."""

from dataclasses import dataclass

NAMESPACE = "kilonova-system"


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """Times in seconds."""

    cluster: str
    """The name of the member: that of its Cluster on the hub."""
    region: str = ""
    """Where it is, for a manager that registers members by themselves."""
    console: str = ""
    """The address of its console, likewise."""
    namespace: str = NAMESPACE
    """Where the agent keeps the highest epoch that it accepted."""
    poll_interval: float = 2.0
    """How often the store is read."""
    heartbeat_interval: float = 10.0
    """How often a report is written although nothing changed."""
    report_delay: float = 1.0
    """How long changes are collected before they are reported."""
    store_timeout: float = 20.0
    """After this time a request to the store has failed."""
