"""Checks of the components: whether each runs, inside of `kilonova up` or as a process."""

from collections.abc import Iterator, Sequence

from kilonova.api.times import human_duration
from kilonova.cli.doctor.cluster_checks import components_not_installed
from kilonova.cli.doctor.facts import ClusterFacts, LeaseFacts
from kilonova.component import Component
from kilonova.component.finding import Finding, ok, problem, warning
from kilonova.component.process.process import NAMESPACE
from kilonova.component.scheduler_names import EMBEDDED_VERSION_MARKER


def check_components(cluster: ClusterFacts, registered: Sequence[Component]) -> Iterator[Finding]:
    """Whether the components run. Those with CRDs of their own and a Lease are expected to, unless
    they run only where they are asked for."""
    left_out = components_not_installed(registered, cluster.definitions or {})
    expected = [each for each in registered if _has_leader(each) and each.name not in left_out]
    if EMBEDDED_VERSION_MARKER in cluster.version and cluster.components is None:
        text = "run inside of `kilonova up`, unless disabled there"
        names = ", ".join(each.name for each in expected)
        yield ok(names, f"{text}; run `kilonova status` on its machine")
        return
    states = cluster.components or {}
    for each in registered:
        failure = cluster.problems.get(each.status_key, "failed")
        yield from _check_embedded(each, states.get(each.status_key, "off"), failure)
    outside = [each for each in expected if states.get(each.status_key, "off") == "off"]
    if outside and cluster.leaders is None:
        yield warning(
            ", ".join(each.name for each in outside),
            f"unknown: you may not list leases in namespace {NAMESPACE}",
            "ask for that permission",
        )
        return
    for each in registered:
        lease = (cluster.leaders or {}).get(each.name)
        if lease is not None and states.get(each.status_key, "off") == "off":
            yield _check_leader(each, lease, cluster.now)
        elif each in outside:
            yield _missing_leader(each, disabled=each.status_key in states)


def _has_leader(component: Component) -> bool:
    """Whether it has a process of its own that reconciles its kinds on every cluster."""
    process = component.process
    if component.embedded is not None and not component.embedded.by_default:
        return False
    return bool(component.kinds and process and process.lease and process.name == component.name)


def _check_embedded(component: Component, state: str, failure: str) -> Iterator[Finding]:
    if state == "degraded":
        yield problem(
            component.name,
            f"{failure} (inside of `kilonova up`)",
            "see the file `log` in the data directory",
        )
    elif state != "off" and component.embedded and component.embedded.build:
        yield ok(component.name, f"is {state}, inside of `kilonova up`")


def _check_leader(component: Component, lease: LeaseFacts, now: float) -> Finding:
    name, start = component.name, _how_to_start(component)
    if not lease.holder or lease.renewed is None:
        return warning(name, "no leader: the last one released its Lease", f"start one: {start}")
    age = max(0.0, now - lease.renewed)
    if age > 2 * lease.duration:
        return problem(
            name,
            f"{lease.holder} last renewed its Lease {human_duration(age)} ago",
            f"see its log, and restart it: {start}",
        )
    return ok(name, f"leader {lease.holder}, Lease renewed {human_duration(age)} ago")


def _how_to_start(component: Component) -> str:
    deploy = component.process.deploy if component.process else ""
    pods = f", or the pods of its Deployment ({deploy})" if deploy else ""
    return f"`kilonova run {component.name}`{pods}"


def _missing_leader(component: Component, *, disabled: bool) -> Finding:
    process, name = component.process, component.name
    assert process is not None
    missing = f"there is no Lease {process.lease} in namespace {NAMESPACE}"
    start = f"run `kilonova run {name}`"
    if disabled:
        return warning(
            name,
            f"disabled in this `kilonova up` (--no-{name}), and not running outside: {missing}",
            f"{start}, or start the cluster without --no-{name}",
        )
    deploy = f", or deploy it ({process.deploy})" if process.deploy else ""
    other = "one with another --namespace, or with --no-leader-elect, is not detected"
    return warning(name, f"not running: {missing}", f"{start}{deploy}; {other}")
