"""/livez, /readyz and /healthz, on both servers where they can be compared."""

import pytest

from kilonova.kube.transport import Request
from kilonova.local.health import Health, Probe
from tests.conftest import Api


@pytest.mark.parametrize("endpoint", ["livez", "readyz", "healthz"])
def test_a_healthy_server_says_ok(api: Api, endpoint: str) -> None:
    assert api.access.ask("GET", f"/{endpoint}") == (200, "ok")
    assert api.access.ask("GET", f"/{endpoint}/ping") == (200, "ok")
    status, text = api.access.ask("GET", f"/{endpoint}?verbose")
    lines = text.splitlines()
    assert status == 200
    assert lines[0] == "[+]ping ok"
    assert lines[-1] == f"{endpoint} check passed"
    assert all(line.startswith("[+]") and line.endswith(" ok") for line in lines[:-1])


def test_checks_can_be_left_out(api: Api) -> None:
    _, text = api.access.ask("GET", "/readyz?verbose&exclude=ping&exclude=x&exclude=a")
    lines = text.splitlines()
    assert lines[0] == "[+]ping excluded: ok"
    assert lines[-2] == ('warn: some health checks cannot be excluded: no matches for "a","x"')
    assert lines[-1] == "readyz check passed"


def test_an_unknown_check_is_not_found(api: Api) -> None:
    status, _ = api.access.ask("GET", "/readyz/nonsense")
    assert status == 404


def test_a_failing_check_is_told_without_being_asked() -> None:
    health = Health([Probe("ping", lambda: True), Probe("store", lambda: False)])
    reply = health.answer(Request("GET", "/readyz"), "readyz", "")
    assert reply is not None
    assert (reply.status, reply.body.decode()) == (
        500,
        "[+]ping ok\n[-]store failed: reason withheld\nreadyz check failed\n",
    )
    excluded = health.answer(Request("GET", "/readyz", [("exclude", "store")]), "readyz", "")
    assert excluded is not None
    assert excluded.status == 200


def test_a_server_that_is_not_ready_is_alive() -> None:
    health = Health([Probe("ping", lambda: True), Probe("started", lambda: False, life=False)])
    for endpoint, status in (("livez", 200), ("readyz", 500), ("healthz", 500)):
        reply = health.answer(Request("GET", f"/{endpoint}"), endpoint, "")
        assert reply is not None
        assert reply.status == status
