"""Whether a container that ended is started again, and when. Pure."""

from dataclasses import dataclass

from kilonova.local.nodes.process.kubelet.pods import Container, Pod, RestartRule

FIRST_DELAY = 10.0
LONGEST_DELAY = 300.0


def restarts_after(pod: Pod, container: Container, exit_code: int) -> bool:
    """What the container's own rules and policy say, and where they say nothing, the pod's."""
    if container.restart_policy is not None:
        if any(_matches(rule, exit_code) for rule in container.restart_policy_rules):
            return True
        return _policy_restarts(container.restart_policy, exit_code)
    return _policy_restarts(pod.spec.restart_policy, exit_code)


def restarts_after_failed_probe(pod: Pod, container: Container) -> bool:
    """While it still runs there is no exit code: only `Never` leaves it ended."""
    policy = container.restart_policy or pod.spec.restart_policy
    return policy != "Never"


@dataclass(slots=True)
class Backoff:
    """How long a container that keeps ending waits: 10 s, doubled each time, at most 300 s.

    The first restart is at once. After running for ten minutes it begins anew. All times are
    seconds of one clock.
    """

    _delay: float = 0.0
    _updated: float = 0.0

    @property
    def delay(self) -> float:
        """The present delay; 0 before the first restart."""
        return self._delay

    def remaining(self, finished: float, now: float) -> float:
        """How much longer to wait since the container finished; 0 when it may start."""
        if not self._delay or self._has_expired(finished):
            return 0.0
        # A clock that was set back must not make it longer.
        return max(0.0, min(self._delay, finished + self._delay - now))

    def count(self, finished: float, now: float) -> None:
        """It is started again."""
        fresh = not self._delay or self._has_expired(finished)
        self._delay = FIRST_DELAY if fresh else min(2 * self._delay, LONGEST_DELAY)
        self._updated = now

    def _has_expired(self, finished: float) -> bool:
        return finished - self._updated > 2 * LONGEST_DELAY


def spoken_delay(seconds: float) -> str:
    """A delay as Go prints it: `10s`, `1m20s`, `5m0s`."""
    whole = int(seconds)
    minutes, rest = divmod(whole, 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def _policy_restarts(policy: str, exit_code: int) -> bool:
    if policy == "Never":
        return False
    return policy != "OnFailure" or exit_code != 0


def _matches(rule: RestartRule, exit_code: int) -> bool:
    codes = rule.exit_codes
    if codes is None:
        return False
    return (exit_code in codes.values) == (codes.operator == "In")
