"""/livez, /readyz and /healthz, on both servers where they can be compared."""

import pytest

from tests.conftest import Api


@pytest.mark.parametrize("endpoint", ["livez", "readyz", "healthz"])
def test_healthy_server_returns_ok(api: Api, endpoint: str) -> None:
    assert api.access.request("GET", f"/{endpoint}") == (200, "ok")
    assert api.access.request("GET", f"/{endpoint}/ping") == (200, "ok")
    status, text = api.access.request("GET", f"/{endpoint}?verbose")
    lines = text.splitlines()
    assert status == 200
    assert lines[0] == "[+]ping ok"
    assert lines[-1] == f"{endpoint} check passed"
    assert all(line.startswith("[+]") and line.endswith(" ok") for line in lines[:-1])


def test_checks_can_be_excluded(api: Api) -> None:
    _, text = api.access.request("GET", "/readyz?verbose&exclude=ping&exclude=x&exclude=a")
    lines = text.splitlines()
    assert lines[0] == "[+]ping excluded: ok"
    assert lines[-2] == ('warn: some health checks cannot be excluded: no matches for "a","x"')
    assert lines[-1] == "readyz check passed"


def test_unknown_check_is_not_found(api: Api) -> None:
    status, _ = api.access.request("GET", "/readyz/nonsense")
    assert status == 404
