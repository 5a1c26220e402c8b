"""The webhook configurations that are registered with the API server."""

from base64 import b64encode

import pytest

from kilonova.workloads.admission import ServiceEndpoint, UrlEndpoint, build_configurations
from kilonova.workloads.settings import OperatorSettings


def test_webhooks_are_found_behind_a_service():
    mutating, validating = build_configurations(
        ServiceEndpoint("operator", "system", 9443), b"ca", OperatorSettings()
    )
    assert (mutating["kind"], validating["kind"]) == (
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
    )
    (defaults,) = mutating["webhooks"]
    assert defaults == {
        "name": "default.podcliqueset.grove.io",
        "clientConfig": {
            "service": {
                "name": "operator",
                "namespace": "system",
                "path": "/webhooks/default-podcliqueset",
                "port": 9443,
            },
            "caBundle": b64encode(b"ca").decode(),
        },
        "rules": [
            {
                "apiGroups": ["grove.io"],
                "apiVersions": ["v1alpha1"],
                "resources": ["podcliquesets"],
                "operations": ["CREATE", "UPDATE"],
            }
        ],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "timeoutSeconds": 10,
        "admissionReviewVersions": ["v1"],
    }
    paths = [each["clientConfig"]["service"]["path"] for each in validating["webhooks"]]
    assert paths == ["/webhooks/validate-podcliqueset", "/webhooks/validate-clustertopology"]


def test_webhooks_are_found_at_an_address():
    address = UrlEndpoint("https://10.0.0.1:9443/operator/")
    mutating, _ = build_configurations(address, b"ca", OperatorSettings())
    assert mutating["webhooks"][0]["clientConfig"]["url"] == (
        "https://10.0.0.1:9443/operator/webhooks/default-podcliqueset"
    )


def test_the_authorizer_is_called_for_managed_objects_only_if_enabled():
    _, validating = build_configurations(
        UrlEndpoint("https://o"), b"", OperatorSettings(authorizer=True)
    )
    authorizer = validating["webhooks"][2]
    assert authorizer["clientConfig"]["url"] == "https://o/webhooks/authorizer-webhook"
    assert authorizer["objectSelector"] == {
        "matchLabels": {"app.kubernetes.io/managed-by": "grove-operator"}
    }
    rules = {resource: rule for rule in authorizer["rules"] for resource in rule["resources"]}
    assert rules["pods"]["operations"] == ["UPDATE"]
    assert rules["podgangs"]["operations"] == ["CREATE", "UPDATE", "DELETE"]
    assert set(rules) == {
        "secrets",
        "serviceaccounts",
        "services",
        "pods",
        "roles",
        "rolebindings",
        "horizontalpodautoscalers",
        "podcliques",
        "podcliquescalinggroups",
        "podgangs",
    }


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://o", 'webhook URL "http://o": must be https://HOST[:PORT][/PATH]'),
        ("o:9443", 'webhook URL "o:9443": must be https://HOST[:PORT][/PATH]'),
        ("https://", 'webhook URL "https://": must be https://HOST[:PORT][/PATH]'),
        (
            "https://me:secret@o/x",
            'webhook URL "https://o/x": must have no user, query or fragment',
        ),
        ("https://o?x", 'webhook URL "https://o?x": must have no user, query or fragment'),
    ],
)
def test_invalid_webhook_url_is_rejected(url, message):
    with pytest.raises(ValueError, match="webhook URL") as rejection:
        UrlEndpoint(url)
    assert str(rejection.value) == message
