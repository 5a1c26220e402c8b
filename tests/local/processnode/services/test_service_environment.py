"""The service environment variables of a pod."""

from typing import Any

import msgspec
import pytest

from kilonova.local.processnode.services import (
    Service,
    build_dns_environment,
    build_service_environment,
)


def service(name: str, ip: str, *ports: dict[str, Any], namespace: str = "default") -> Service:
    metadata = {"name": name, "namespace": namespace, "uid": "u", "resourceVersion": "1"}
    spec = {"clusterIP": ip, "ports": list(ports)}
    return msgspec.convert({"metadata": metadata, "spec": spec}, Service)


KUBERNETES = service("kubernetes", "10.96.0.1", {"name": "https", "port": 443})
KUBERNETES_VARIABLES = {
    "KUBERNETES_SERVICE_HOST": "10.96.0.1",
    "KUBERNETES_SERVICE_PORT": "443",
    "KUBERNETES_SERVICE_PORT_HTTPS": "443",
    "KUBERNETES_PORT": "tcp://10.96.0.1:443",
    "KUBERNETES_PORT_443_TCP": "tcp://10.96.0.1:443",
    "KUBERNETES_PORT_443_TCP_PROTO": "tcp",
    "KUBERNETES_PORT_443_TCP_PORT": "443",
    "KUBERNETES_PORT_443_TCP_ADDR": "10.96.0.1",
}
WEB = service(
    "my-web",
    "10.96.1.7",
    {"name": "http", "port": 80},
    {"name": "dns-udp", "port": 53, "protocol": "UDP"},
    namespace="shop",
)
WEB_VARIABLES = {
    "MY_WEB_SERVICE_HOST": "10.96.1.7",
    "MY_WEB_SERVICE_PORT": "80",
    "MY_WEB_SERVICE_PORT_HTTP": "80",
    "MY_WEB_SERVICE_PORT_DNS_UDP": "53",
    "MY_WEB_PORT": "tcp://10.96.1.7:80",
    "MY_WEB_PORT_80_TCP": "tcp://10.96.1.7:80",
    "MY_WEB_PORT_80_TCP_PROTO": "tcp",
    "MY_WEB_PORT_80_TCP_PORT": "80",
    "MY_WEB_PORT_80_TCP_ADDR": "10.96.1.7",
    "MY_WEB_PORT_53_UDP": "udp://10.96.1.7:53",
    "MY_WEB_PORT_53_UDP_PROTO": "udp",
    "MY_WEB_PORT_53_UDP_PORT": "53",
    "MY_WEB_PORT_53_UDP_ADDR": "10.96.1.7",
}


@pytest.mark.parametrize(
    ("namespace", "links", "expected"),
    [
        ("shop", True, KUBERNETES_VARIABLES | WEB_VARIABLES),
        ("shop", False, KUBERNETES_VARIABLES),
        ("other", True, KUBERNETES_VARIABLES),
    ],
)
def test_pod_gets_variables_of_the_api_and_its_namespace(
    namespace: str, links: bool, expected: dict[str, str]
) -> None:
    assert build_service_environment([KUBERNETES, WEB], namespace, links=links) == expected


def test_unnamed_port_has_no_variable_of_its_name() -> None:
    plain = service("a", "10.96.0.9", {"port": 1}, namespace="shop")
    assert "A_SERVICE_PORT_" not in build_service_environment([plain], "shop")


@pytest.mark.parametrize("ip", ["None", ""])
def test_service_without_address_is_left_out(ip: str) -> None:
    headless = service("a", ip, {"port": 1}, namespace="shop")
    assert build_service_environment([headless], "shop") == {}


def test_ipv6_address_is_bracketed_in_links() -> None:
    six = service("a", "fd00::1", {"port": 1}, namespace="shop")
    assert build_service_environment([six], "shop")["A_PORT"] == "tcp://[fd00::1]:1"


def test_service_called_kubernetes_in_the_pods_namespace_wins() -> None:
    own = service("kubernetes", "10.96.3.3", {"port": 1}, namespace="shop")
    for order in ([KUBERNETES, own], [own, KUBERNETES]):
        assert build_service_environment(order, "shop")["KUBERNETES_SERVICE_HOST"] == "10.96.3.3"


def test_the_search_list_is_that_of_a_pods_resolv_conf() -> None:
    environment = build_dns_environment("shop")
    assert environment["LOCALDOMAIN"] == "shop.svc.cluster.local svc.cluster.local cluster.local"
    assert environment["RES_OPTIONS"] == "ndots:5"


def test_without_routes_variables_name_loopback_listeners() -> None:
    api = service("kubernetes", "10.96.0.1", {"name": "https", "port": 443, "targetPort": 7443})
    reported = build_service_environment([api, WEB], "shop", via_loopback=True)
    assert reported["KUBERNETES_SERVICE_HOST"] == "127.0.0.1"
    assert reported["KUBERNETES_SERVICE_PORT_HTTPS"] == "7443"
    assert reported["KUBERNETES_PORT_7443_TCP"] == "tcp://127.0.0.1:7443"
    assert reported["MY_WEB_PORT"] == "tcp://127.96.1.7:80"
