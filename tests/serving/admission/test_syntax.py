"""Texts that become part of the configuration of Envoy, which rejects all of it for one of them."""

from collections.abc import Callable

import pytest

from kilonova.serving.admission.syntax import check_endpoint, check_path, check_url

GOOD = (
    (check_url, "https://issuer.example.com/keys?a=b"),
    (check_url, "http://10.0.0.1:8080/k"),
    (check_url, "http://[::1]:80/k"),
    (check_url, "https://exa_mple.svc"),
    (check_url, "http://x/caf%C3%A9"),
    (check_endpoint, "collector.monitoring:4317"),
    (check_endpoint, "[::1]:4317"),
    (check_endpoint, "http://c:4318/"),
    (check_path, "/"),
    (check_path, "/caf%C3%A9?deep=true"),
)
BAD = (
    (check_url, "http://exämple.test/k"),
    (check_url, "http://x/kä"),
    (check_url, "http://a*b/k"),
    (check_url, "http://user:word@x/k"),
    (check_url, "http://[::1/k"),
    (check_url, "http://:80/k"),
    (check_url, "http://x:0/k"),
    (check_endpoint, "collectör:4317"),
    (check_endpoint, "a@b:1"),
    (check_endpoint, "a/b:1"),
    (check_endpoint, ":4317"),
    (check_path, "health"),
    (check_path, "/é"),
    (check_path, "/a#b"),
    (check_path, "/a b"),
)


@pytest.mark.parametrize(("check", "text"), GOOD)
def test_texts_that_envoy_takes_are_accepted(check: Callable[[str], str | None], text: str) -> None:
    assert check(text) is None


@pytest.mark.parametrize(("check", "text"), BAD)
def test_texts_that_envoy_rejects_are_refused(
    check: Callable[[str], str | None], text: str
) -> None:
    problem = check(text)
    assert problem is not None
    assert problem.startswith(("must be", "must start with '/'"))
