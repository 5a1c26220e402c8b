"""Whether a container that ended is started again. Pure."""

from kilonova.local.nodes.process.kubelet.pods import Container, Pod, RestartRule


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


def _policy_restarts(policy: str, exit_code: int) -> bool:
    if policy == "Never":
        return False
    return policy != "OnFailure" or exit_code != 0


def _matches(rule: RestartRule, exit_code: int) -> bool:
    codes = rule.exit_codes
    if codes is None:
        return False
    return (exit_code in codes.values) == (codes.operator == "In")
