"""Validation of definitions. The messages are those of kube-apiserver 1.36."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from kilonova.local.apiserver.customresources import validate_definition, validate_definition_update
from kilonova.local.apiserver.kinds.custom_resource_definitions import (
    CustomResourceDefinitionStrategy,
)
from kilonova.local.apiserver.schema.builtin import builtin_schema
from kilonova.local.objects.crd_names import accept_names

Change = Callable[[dict[str, Any]], Any]
LABEL = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "
    "regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
MIXED = f"may have mixed case, but should otherwise match: {LABEL}"


def definition() -> dict[str, Any]:
    fields = {
        "replicas": {"type": "integer"},
        "phase": {"type": "string"},
        "o": {"type": "object"},
    }
    root = {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": root},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.probe.io"},
        "spec": {
            "group": "probe.io",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [version],
        },
    }


def strategy() -> CustomResourceDefinitionStrategy:
    result = CustomResourceDefinitionStrategy(
        lambda: builtin_schema("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
    )
    result.has_status_subresource = True
    return result


def written(change: Change) -> dict[str, Any]:
    obj = definition()
    change(obj)
    strategy().default(obj)
    strategy().prepare_create(obj)
    return obj


def spec(**fields: Any) -> Change:
    return lambda obj: obj["spec"].update(fields)


def names(**fields: Any) -> Change:
    return lambda obj: obj["spec"]["names"].update(fields)


def version(**fields: Any) -> Change:
    return lambda obj: obj["spec"]["versions"][0].update(fields)


def renamed(group: str) -> Change:
    def change(obj: dict[str, Any]) -> None:
        obj["spec"]["group"] = group
        obj["metadata"]["name"] = f"things.{group}"

    return change


def without(*path: str) -> Change:
    def change(obj: dict[str, Any]) -> None:
        for name in path[:-1]:
            obj = obj[name]
        del obj[path[-1]]

    return change


def second_version(**fields: Any) -> Change:
    def change(obj: dict[str, Any]) -> None:
        first = obj["spec"]["versions"][0]
        obj["spec"]["versions"].append({**first, "name": "v2", "storage": False, **fields})

    return change


def format_version(name: str, storage: bool) -> str:
    return (
        f'{{"Name":"{name}","Served":true,"Storage":{str(storage).lower()},"Deprecated":false,'
        '"DeprecationWarning":null,"Schema":null,"Subresources":null,'
        '"AdditionalPrinterColumns":null,"SelectableFields":null}'
    )


CASES: list[tuple[str, Change, list[str]]] = [
    ("nothing wrong", lambda obj: None, []),
    ("no version served", version(served=False), []),
    (
        "another name",
        lambda obj: obj["metadata"].update(name="x.probe.io"),
        ['metadata.name: Invalid value: "x.probe.io": must be spec.names.plural+"."+spec.group'],
    ),
    (
        "a group without a dot",
        renamed("probe"),
        ['spec.group: Invalid value: "probe": should be a domain with at least one dot'],
    ),
    (
        "an unknown scope",
        spec(scope="Foo"),
        ['spec.scope: Unsupported value: "Foo": supported values: "Cluster", "Namespaced"'],
    ),
    ("no scope", without("spec", "scope"), ["spec.scope: Required value"]),
    (
        "no kind",
        without("spec", "names", "kind"),
        [
            "spec.names.singular: Required value",
            "spec.names.kind: Required value",
            "spec.names.listKind: Required value",
        ],
    ),
    (
        "a kind with an underscore",
        names(kind="My_Kind"),
        [
            f'spec.names.singular: Invalid value: "my_kind": {LABEL}',
            f'spec.names.kind: Invalid value: "My_Kind": {MIXED}',
            f'spec.names.listKind: Invalid value: "My_KindList": {MIXED}',
        ],
    ),
    (
        "a list kind like the kind",
        names(listKind="Thing"),
        ['spec.names.listKind: Invalid value: "Thing": kind and listKind may not be the same'],
    ),
    (
        "a short name in capitals",
        names(shortNames=["Th"]),
        [f'spec.names.shortNames[0]: Invalid value: "Th": {LABEL}'],
    ),
    (
        "a category with a space",
        names(categories=["A b"]),
        [f'spec.names.categories[0]: Invalid value: "A b": {LABEL}'],
    ),
    (
        "no storage version",
        version(storage=False),
        [
            f"spec.versions: Invalid value: [{format_version('v1', False)}]: "
            "must have exactly one version marked as storage version",
            "status.storedVersions: Invalid value: null: must have at least one stored version",
        ],
    ),
    (
        "two storage versions",
        second_version(storage=True),
        [
            f"spec.versions: Invalid value: [{format_version('v1', True)},"
            f"{format_version('v2', True)}]: must have exactly one version marked as "
            "storage version",
            'status.storedVersions: Invalid value: ["v1"]: must have the storage version v2',
        ],
    ),
    (
        "a version twice",
        second_version(name="v1"),
        [
            f"spec.versions: Invalid value: [{format_version('v1', True)},"
            f"{format_version('v1', False)}]: must contain unique version names"
        ],
    ),
    (
        "a version that is no label",
        version(name="1x"),
        [
            f'spec.versions[0].name: Invalid value: "1x": {LABEL}',
            f'spec.version: Invalid value: "1x": {LABEL}',
        ],
    ),
    (
        "no schema",
        lambda obj: obj["spec"]["versions"][0].pop("schema"),
        ["spec.versions[0].schema.openAPIV3Schema: Required value"],
    ),
    (
        "unknown fields preserved everywhere",
        spec(preserveUnknownFields=True),
        [
            "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set "
            "x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        ],
    ),
    (
        "an unknown conversion",
        spec(conversion={"strategy": "Foo"}),
        ['spec.conversion.strategy: Unsupported value: "Foo": supported values: "None", "Webhook"'],
    ),
    (
        "a webhook for no conversion",
        spec(
            conversion={
                "strategy": "None",
                "webhook": {
                    "clientConfig": {"url": "https://x.y/"},
                    "conversionReviewVersions": ["v1"],
                },
            }
        ),
        [
            "spec.conversion.webhookClientConfig: Forbidden: should not be set when strategy is "
            "not set to Webhook",
            "spec.conversion.conversionReviewVersions: Forbidden: should not be set when strategy "
            "is not set to Webhook",
        ],
    ),
    (
        "a scale without paths",
        version(subresources={"scale": {}}),
        [
            "spec.subresources.scale.specReplicasPath: Required value",
            "spec.subresources.scale.statusReplicasPath: Required value",
        ],
    ),
    (
        "a scale with wrong paths",
        version(
            subresources={
                "scale": {
                    "specReplicasPath": "spec.replicas",
                    "statusReplicasPath": ".spec.x",
                    "labelSelectorPath": ".metadata.x",
                }
            }
        ),
        [
            'spec.subresources.scale.specReplicasPath: Invalid value: "spec.replicas": must be a '
            "simple json path starting with .",
            'spec.subresources.scale.statusReplicasPath: Invalid value: ".spec.x": should be a '
            "json path under .status",
            'spec.subresources.scale.labelSelectorPath: Invalid value: ".metadata.x": should be a '
            "json path under either .spec or .status",
        ],
    ),
    (
        "columns",
        version(
            additionalPrinterColumns=[
                {"name": "", "type": "foo", "jsonPath": "spec"},
                {"name": "x", "type": "", "jsonPath": ""},
                {"name": "x", "type": "string", "format": "weird", "jsonPath": ".x"},
            ]
        ),
        [
            "spec.additionalPrinterColumns[0].name: Required value",
            'spec.additionalPrinterColumns[0].type: Invalid value: "foo": must be one of '
            "boolean,date,integer,number,string",
            'spec.additionalPrinterColumns[0].JSONPath: Invalid value: "spec": must be a simple '
            "json path starting with .",
            "spec.additionalPrinterColumns[1].type: Required value: must be one of "
            "boolean,date,integer,number,string",
            "spec.additionalPrinterColumns[1].JSONPath: Required value",
            'spec.additionalPrinterColumns[2].format: Invalid value: "weird": must be one of '
            "byte,date,date-time,double,float,int32,int64,password",
        ],
    ),
    (
        "selectable fields",
        version(
            selectableFields=[
                {"jsonPath": ".spec.nope"},
                {"jsonPath": ".spec.o"},
                {"jsonPath": ".metadata.name"},
                {"jsonPath": ".spec.phase"},
                {"jsonPath": ".spec.phase"},
                {"jsonPath": ""},
                {"jsonPath": ".spec['phase']"},
            ]
        ),
        [
            'spec.selectableFields[0].jsonPath: Invalid value: ".spec.nope": is an invalid path: '
            "does not refer to a valid field",
            'spec.selectableFields[1].jsonPath: Invalid value: ".spec.o": must point to a field '
            "of type string, boolean or integer. Enum string fields and strings with formats are "
            "allowed.",
            'spec.selectableFields[2].jsonPath: Invalid value: ".metadata.name": is an invalid '
            "path: does not refer to a valid field",
            'spec.selectableFields[4].jsonPath: Duplicate value: ".spec.phase"',
            "spec.selectableFields[5].jsonPath: Required value",
            "spec.selectableFields[6].jsonPath: Invalid value: \".spec['phase']\": is an invalid "
            "path: array notation is not allowed",
        ],
    ),
    (
        "a warning without deprecation",
        version(deprecationWarning="x"),
        [
            'spec.versions[0].deprecationWarning: Invalid value: "x": can only be set for '
            "deprecated versions"
        ],
    ),
    (
        "an empty warning",
        version(deprecated=True, deprecationWarning=""),
        [
            'spec.versions[0].deprecationWarning: Invalid value: "": must not be an empty string',
        ],
    ),
    (
        "a group of the Kubernetes project",
        renamed("a.k8s.io"),
        [
            "metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups "
            'must have approval annotation "api-approved.kubernetes.io", see '
            "https://github.com/kubernetes/enhancements/pull/1111"
        ],
    ),
    (
        "versions of which one has a bad schema",
        second_version(
            schema={"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "foo"}}}}
        ),
        [
            "spec.versions[1].schema.openAPIV3Schema.properties[spec].type: Unsupported value: "
            '"foo": supported values: "array", "boolean", "integer", "number", "object", "string"'
        ],
    ),
    (
        "a rule that does not compile",
        lambda obj: obj["spec"]["versions"][0]["schema"]["openAPIV3Schema"].update(
            {"x-kubernetes-validations": [{"rule": "self.nope == 1"}]}
        ),
        [
            "spec.validation.openAPIV3Schema.x-kubernetes-validations[0].rule: Invalid value: "
            '{"Rule":"self.nope == 1","Message":"","MessageExpression":"","Reason":null,'
            '"FieldPath":"","OptionalOldSelf":null}: compilation failed: ERROR: <input>:1:5: '
            "undefined field 'nope'\n | self.nope == 1\n | ....^"
        ],
    ),
]


@pytest.mark.parametrize(
    ("change", "problems"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_new_definition_is_validated_as_by_kubernetes(change: Change, problems: list[str]) -> None:
    assert [str(problem) for problem in strategy().validate(written(change))] == problems


def test_conversion_by_webhook_is_rejected_with_a_clear_message() -> None:
    webhook = {"clientConfig": {"url": "https://x.y/"}, "conversionReviewVersions": ["v1"]}
    obj = written(spec(conversion={"strategy": "Webhook", "webhook": webhook}))
    assert [str(problem) for problem in validate_definition(obj)] == [
        "spec.conversion.strategy: Forbidden: conversion webhooks are not served here; versions "
        "may differ in schema only"
    ]


def test_names_and_conversion_are_set() -> None:
    obj = written(lambda obj: None)
    assert obj["spec"]["names"] == {
        "plural": "things",
        "singular": "thing",
        "kind": "Thing",
        "listKind": "ThingList",
    }
    assert obj["spec"]["conversion"] == {"strategy": "None"}
    assert obj["status"] == {
        "conditions": None,
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": ["v1"],
    }


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (spec(scope="Cluster"), 'spec.scope: Invalid value: "Cluster": field is immutable'),
        (names(kind="Other"), 'spec.names.kind: Invalid value: "Other": field is immutable'),
        (names(plural="others"), 'spec.names.plural: Invalid value: "others": field is immutable'),
        (spec(group="x.io"), 'spec.group: Invalid value: "x.io": field is immutable'),
        (
            version(name="v2"),
            'status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; v1 was '
            "previously a storage version, and must remain in spec.versions until a storage "
            "migration ensures no data remains persisted in v1 and removes v1 from "
            "status.storedVersions",
        ),
        (names(listKind="OtherList"), ""),
    ],
)
def test_storage_fields_of_a_definition_are_immutable(change: Change, problem: str) -> None:
    old = written(lambda obj: None)
    accept_names(old, [], "2026-01-01T00:00:00Z")
    old["metadata"]["resourceVersion"] = "1"
    new = deepcopy(old)
    change(new)
    strategy().prepare_update(new, old)
    found = [*strategy().validate(new), *validate_definition_update(new, old)]
    assert [str(each) for each in found] == ([problem] if problem else [])


def test_unrecognized_formats_are_warned_about() -> None:
    fields = {
        "a": {"type": "string", "format": "weird"},
        "b": {"type": "integer", "format": "int8"},
        "c": {"type": "object", "format": "x"},
        "d": {"type": "string", "format": "date-time"},
        "e": {"type": "string", "format": "password"},
    }
    obj = written(
        lambda obj: obj["spec"]["versions"][0]["schema"]["openAPIV3Schema"].update(
            properties=fields
        )
    )
    assert strategy().warnings(obj) == [
        'unrecognized format "weird"',
        'unrecognized format "int8"',
        'unrecognized format "x"',
    ]


def test_deleted_definition_gets_the_cleanup_finalizer() -> None:
    obj = written(lambda obj: None)
    strategy().prepare_delete(obj, "2026-01-01T00:00:00Z")
    assert obj["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    assert [each["type"] for each in obj["status"]["conditions"]] == ["Terminating"]
