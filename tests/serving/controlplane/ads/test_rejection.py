"""What is told of a response that a gateway rejected."""

import pytest

from kilonova.serving.controlplane.ads.rejection import summarize_rejection

TOKEN = "301e6e2930b0a1fd"
QUOTED = f"""goo.gle/debugstr
name: "gateway"
request_headers_to_add {{
  header {{
    key: "x-kilonova-gateway-token"
    value: "{TOKEN}"
  }}
}}
"""
PARSED = "Error adding/updating listener(s) gateway: Provider 'a' has an invalid URI: 'https://a b/"


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (
            f"{QUOTED}: Proto constraint validation failed (Path)",
            "Proto constraint validation failed (Path)",
        ),
        (f"{QUOTED}...(truncated)", "a value is not allowed; Envoy does not report which"),
        (f"{PARSED}\n'", PARSED),
        ("x" * 5000, "x" * 500 + "…"),
        ("", "a value is not allowed; Envoy does not report which"),
    ],
)
def test_reason_is_told_without_the_resource(message: str, reason: str) -> None:
    assert summarize_rejection(message) == reason
