"""Options of requests: typed before a verb is called, or rejected."""

import json
from random import Random
from typing import Any

import msgspec
import pytest

from kilonova.kube.client.transport import Query, Reply, Request
from kilonova.local.apimachinery.errors import ApiError
from kilonova.local.apimachinery.selectors import parse_field_selector, parse_label_selector
from kilonova.local.apiserver.auth import MASTERS, User
from kilonova.local.apiserver.endpoints.query_options import (
    check_patch_options,
    parse_delete_options,
    parse_get_options,
    parse_list_options,
    parse_watch_options,
    parse_write_options,
)
from kilonova.local.apiserver.registry.options import (
    DeleteOptions,
    GetOptions,
    ListOptions,
    Preconditions,
    WatchOptions,
    WriteOptions,
)
from tests.local.embedded_cluster import run_cluster

BOB = User("bob")


def query(text: str) -> Query:
    pairs = (each.partition("=") for each in text.split("&") if each)
    return [(name, value) for name, _, value in pairs]


def write_options(text: str, kind: str = "CreateOptions", agent: str = "") -> WriteOptions:
    request = Request("POST", "/", query(text), {"user-agent": agent})
    return parse_write_options(request, BOB, kind)


def delete_options(text: str, body: Any = None) -> tuple[DeleteOptions, bool]:
    content = b"" if body is None else json.dumps(body).encode()
    request = Request("DELETE", "/", query(text), {}, content)
    options = parse_write_options(request, BOB, "DeleteOptions")
    return parse_delete_options(request, options), options.dry_run


def test_get_options() -> None:
    assert parse_get_options(query("resourceVersion=7&resourceVersion=8")) == GetOptions("7")
    assert parse_get_options([]) == GetOptions()


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("", ListOptions()),
        ("limit=&continue=&labelSelector=", ListOptions()),
        ("limit=-5", ListOptions()),
        (
            "limit=5&limit=x&continue=abc&labelSelector=a=b",
            ListOptions(parse_label_selector("a=b"), limit=5, continue_token="abc"),
        ),
        (
            "resourceVersion=x&resourceVersionMatch=Exact&fieldSelector=metadata.name=n",
            ListOptions(
                field_selector=parse_field_selector("metadata.name=n"),
                resource_version="x",
                resource_version_match="Exact",
            ),
        ),
    ],
)
def test_list_options(text: str, options: ListOptions) -> None:
    assert parse_list_options(query(text)) == options


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("watch=1&timeoutSeconds=9", WatchOptions(9)),
        (
            "timeoutSeconds=9&resourceVersion=3&allowWatchBookmarks=true",
            WatchOptions(9, resource_version="3", bookmarks=True),
        ),
        (
            "timeoutSeconds=9&sendInitialEvents=0&resourceVersionMatch=NotOlderThan",
            WatchOptions(9, send_initial_events=False),
        ),
    ],
)
def test_watch_options(text: str, options: WatchOptions) -> None:
    assert parse_watch_options(query(text), Random(1)) == options


def test_watch_without_a_timeout_has_a_random_one() -> None:
    assert 1800 <= parse_watch_options([], Random(1)).timeout_seconds <= 3600


def test_write_options_and_their_defaults() -> None:
    default = write_options("", agent="kubectl/v1 (linux)")
    assert (default.manager, default.validation, default.dry_run) == ("kubectl", "Warn", False)
    assert default.to_object("CreateOptions") == {
        "kind": "CreateOptions",
        "apiVersion": "meta.k8s.io/v1",
    }
    given = write_options("fieldManager=me&dryRun=All&fieldValidation=Strict&force=1")
    assert (given.manager, given.validation, given.force) == ("me", "Strict", True)
    assert given.to_object("UpdateOptions") == {
        "kind": "UpdateOptions",
        "apiVersion": "meta.k8s.io/v1",
        "dryRun": ["All"],
        "fieldManager": "me",
        "fieldValidation": "Strict",
    }


@pytest.mark.parametrize(
    ("text", "body", "options", "dry_run"),
    [
        ("", None, DeleteOptions(), False),
        ("gracePeriodSeconds=-1&dryRun=All", None, DeleteOptions(1), True),
        ("propagationPolicy=Orphan", {}, DeleteOptions(None, "Orphan"), False),
        (
            "gracePeriodSeconds=9&propagationPolicy=Orphan",
            {"gracePeriodSeconds": 3, "propagationPolicy": "Foreground", "dryRun": ["All"]},
            DeleteOptions(3, "Foreground"),
            True,
        ),
        (
            "",
            {"orphanDependents": False, "preconditions": {"uid": "u", "resourceVersion": "5"}},
            DeleteOptions(None, "Background", Preconditions("u", "5")),
            False,
        ),
    ],
)
def test_delete_options(text: str, body: Any, options: DeleteOptions, dry_run: bool) -> None:
    assert delete_options(text, body) == (options, dry_run)


@pytest.mark.parametrize(
    ("parse", "code", "message"),
    [
        (lambda: parse_list_options(query("limit=x")), 400, 'parsing "x": invalid syntax'),
        (lambda: parse_list_options(query("labelSelector=%")), 400, "unable to parse requirement"),
        (
            lambda: parse_list_options(query("resourceVersionMatch=Exact")),
            422,
            "resourceVersionMatch is forbidden unless resourceVersion is provided",
        ),
        (
            lambda: parse_list_options(query("sendInitialEvents=1")),
            422,
            "sendInitialEvents is forbidden for list",
        ),
        (
            lambda: parse_watch_options(query("timeoutSeconds="), Random(1)),
            400,
            'parsing "": invalid syntax',
        ),
        (
            lambda: parse_watch_options(query("sendInitialEvents=1"), Random(1)),
            422,
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ),
        (lambda: write_options("dryRun=Some"), 422, 'supported values: "All"'),
        (lambda: write_options("fieldValidation=x"), 422, '"Ignore", "Strict", "Warn"'),
        (lambda: write_options(f"fieldManager={'x' * 129}"), 422, "may not be more than 128 bytes"),
        (
            lambda: check_patch_options(write_options("", "PatchOptions"), is_apply=True),
            422,
            "fieldManager: Required value: is required for apply patch",
        ),
        (
            lambda: check_patch_options(write_options("force=0", "PatchOptions"), is_apply=False),
            422,
            "force: Forbidden: may not be specified for non-apply patch",
        ),
        (lambda: delete_options("propagationPolicy=Up"), 422, 'Unsupported value: "Up"'),
        (
            lambda: delete_options("", {"preconditions": {"uid": 5}}),
            400,
            "DeleteOptions could not be read",
        ),
    ],
)
def test_invalid_options_are_rejected(parse: Any, code: int, message: str) -> None:
    with pytest.raises(ApiError) as raised:
        parse()
    assert raised.value.code == code
    assert message in raised.value.message


NOT_ALLOWED = """
OPTIONS /api/v1/namespaces/default/pods
POST /api/v1/pods
DELETE /api/v1/pods
POST /api/v1/namespaces/default/pods/a
PUT /api/v1/namespaces/default/pods
GET /api/v1/namespaces/default/pods/a/binding
POST /apis/apps/v1/namespaces/default/deployments/a/scale
PUT /api/v1/namespaces/default/pods/a/exec
POST /api/v1/namespaces/default/pods/a/log
HEAD /api/v1/namespaces/default/pods/a/log
GET /apis/authorization.k8s.io/v1/subjectaccessreviews
GET /apis/metrics.k8s.io/v1beta1/nodes?watch=yes
"""


async def test_verbs_that_a_resource_lacks_are_rejected() -> None:
    root = User("root", groups=(MASTERS,))
    async with run_cluster(controllers="") as cluster:
        for line in NOT_ALLOWED.strip().splitlines():
            method, _, url = line.partition(" ")
            path, _, text = url.partition("?")
            reply = await cluster.api.handle(Request(method, path, query(text)), root)
            assert isinstance(reply, Reply), line
            reason = msgspec.json.decode(reply.body).get("reason")
            assert (reply.status, reason) == (405, "MethodNotAllowed"), line
