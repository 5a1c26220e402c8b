"""The configuration of a service without anything special."""

from kilonova.api.serving import Auth, Gateway, HashKey, JwtProvider, LoadBalancing
from kilonova.serving.gateway.config import render_bootstrap, render_gateway
from tests.serving.gateway.support.services import (
    CONTROL_PLANE,
    DRAINING,
    GRPC_ONLY,
    TOKEN,
    build_endpoint,
    build_group,
    build_spec,
    build_state,
)

KEY = ("default", "web")


def test_group_has_a_cluster_for_each_port_that_counts_as_one():
    config = render_gateway(KEY, build_spec(), build_state())
    assert {"server/main/grpc", "server/main/http", "hold/main"} <= set(config.clusters)
    assert {
        config.clusters[f"server/main/{port}"]["alt_stat_name"] for port in ("grpc", "http")
    } == {"server/main"}


def test_group_without_http_has_no_cluster_for_it():
    config = render_gateway(KEY, build_spec(build_group(ports=GRPC_ONLY)), build_state())
    assert "server/main/http" not in config.clusters
    assert list(config.endpoints) == ["server/main/grpc"]


def test_server_that_comes_changes_endpoints_alone():
    one, two = build_endpoint("main-0"), build_endpoint("main-1", address="10.0.0.2")
    before = render_gateway(KEY, build_spec(), build_state([one]))
    after = render_gateway(KEY, build_spec(), build_state([one, two]))
    assert before.endpoints != after.endpoints
    assert (before.clusters, before.routes) == (after.clusters, after.routes)
    assert before.listeners == after.listeners


def test_server_that_drains_stays_among_the_endpoints():
    config = render_gateway(
        KEY, build_spec(), build_state([build_endpoint(), build_endpoint("main-1", state=DRAINING)])
    )
    endpoints = config.endpoints["server/main/grpc"]["endpoints"][0]["lb_endpoints"]
    assert [each["health_status"] for each in endpoints] == ["HEALTHY", "DRAINING"]


def test_listener_binds_further_addresses_at_both_ports():
    config = render_gateway(KEY, build_spec(), build_state(listen_addresses=("127.96.0.9",)))
    listener = config.listeners["gateway"]
    bound = [listener, *listener["additional_addresses"]]
    assert [
        (
            each["address"]["socket_address"]["address"],
            each["address"]["socket_address"]["port_value"],
        )
        for each in bound
    ] == [("0.0.0.0", 8000), ("0.0.0.0", 8001), ("127.96.0.9", 8000), ("127.96.0.9", 8001)]


def test_bootstrap_names_the_service_and_proves_it():
    bootstrap = render_bootstrap(KEY, CONTROL_PLANE, TOKEN, 8002)
    assert bootstrap["node"]["cluster"] == "default/web"
    metadata = bootstrap["dynamic_resources"]["ads_config"]["grpc_services"][0]["initial_metadata"]
    assert metadata == [{"key": "authorization", "value": f"Bearer {TOKEN}"}]


def test_calls_pass_no_route_of_http():
    [host] = render_gateway(KEY, build_spec(), build_state()).routes["gateway"]["virtual_hosts"]
    is_grpc = ["grpc" in each["match"] for each in host["routes"]]
    assert is_grpc == sorted(is_grpc, reverse=True)


def test_issuer_of_tokens_is_known_by_its_name_or_address():
    for host, kind, sni in (("sso.example.com", "DNS", True), ("10.0.0.7", "IP_ADDRESS", False)):
        provider = JwtProvider(name="sso", issuer="i", jwks_uri=f"https://{host}/keys")
        config = render_gateway(KEY, build_spec(auth=Auth(jwt=(provider,))), build_state())
        tls = config.clusters["jwks/sso"]["transport_socket"]["typed_config"]
        names = tls["common_tls_context"]["validation_context"]["match_typed_subject_alt_names"]
        assert names == [{"san_type": kind, "matcher": {"exact": host}}]
        assert ("sni" in tls) is sni


def test_new_servers_start_slowly_where_the_policy_can():
    for balancing, field in (
        (LoadBalancing(policy="LeastRequest"), "least_request_lb_config"),
        (LoadBalancing(policy="RoundRobin"), "round_robin_lb_config"),
    ):
        gateway = Gateway(slow_start="10s", load_balancing=balancing)
        config = render_gateway(KEY, build_spec(gateway=gateway), build_state())
        for port in ("grpc", "http"):
            found = config.clusters[f"server/main/{port}"][field]
            assert found == {"slow_start_config": {"slow_start_window": "10s"}}


def test_hashed_policies_bound_the_load_of_a_server():
    balancing = LoadBalancing(
        policy="Maglev", hash=(HashKey("ClientAddress"),), hash_balance_factor=120
    )
    gateway = Gateway(load_balancing=balancing)
    config = render_gateway(KEY, build_spec(gateway=gateway), build_state())
    options = config.clusters["server/main/http"]["common_lb_config"]
    assert options["consistent_hashing_lb_config"] == {"hash_balance_factor": 120}
