"""Whether a container that ended is restarted. Pure."""

from kilonova.local.processnode.kubelet.objects import Container, Pod, RestartRule


def should_restart(pod: Pod, container: Container, exit_code: int) -> bool:
    """By the container's restart rules and policy, else by the pod's policy."""
    if container.restart_policy is not None:
        if any(_matches_rule(rule, exit_code) for rule in container.restart_policy_rules):
            return True
        return _policy_allows_restart(container.restart_policy, exit_code)
    return _policy_allows_restart(pod.spec.restart_policy, exit_code)


def should_restart_after_failed_probe(pod: Pod, container: Container) -> bool:
    """A running container has no exit code: only `Never` prevents the restart."""
    policy = container.restart_policy or pod.spec.restart_policy
    return policy != "Never"


def _policy_allows_restart(policy: str, exit_code: int) -> bool:
    if policy == "Never":
        return False
    return policy != "OnFailure" or exit_code != 0


def _matches_rule(rule: RestartRule, exit_code: int) -> bool:
    codes = rule.exit_codes
    if codes is None:
        return False
    return (exit_code in codes.values) == (codes.operator == "In")
