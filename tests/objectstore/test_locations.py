"""Places as users write them."""

from pathlib import Path

import pytest

from kilonova.objectstore import S3Settings, StoreNotUsable
from kilonova.objectstore.locations import Location, parse_location
from kilonova.objectstore.oci.location import OciLocation


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("builds", Path("builds")),
        ("/srv/builds", Path("/srv/builds")),
        ("~/builds", Path.home() / "builds"),
        ("file:///srv/my%20builds", Path("/srv/my builds")),
        ("file://localhost/srv", Path("/srv")),
        ("s3://bucket", S3Settings(bucket="bucket")),
        ("s3://bucket/a/b/", S3Settings(bucket="bucket", prefix="a/b/")),
        (
            "s3://bucket/a?endpoint=http://s3.example.com:9000&region=eu",
            S3Settings(
                bucket="bucket", prefix="a/", endpoint="http://s3.example.com:9000", region="eu"
            ),
        ),
        ("oci://r.example.com/a:v1", OciLocation("r.example.com", "a", "v1")),
    ],
)
def test_location_is_parsed(text: str, expected: Location) -> None:
    assert parse_location(text, {}) == expected


@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"])
def test_server_of_s3_comes_from_the_environment_unless_it_is_given(name: str) -> None:
    environment = {name: "http://s3.example.com"}
    found = parse_location("s3://bucket", environment)
    assert found == S3Settings(bucket="bucket", endpoint="http://s3.example.com")
    given = parse_location("s3://bucket?endpoint=http://other.example.com", environment)
    assert given == S3Settings(bucket="bucket", endpoint="http://other.example.com")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is empty; use a directory, file:///DIR"),
        ("http://example.com", "unknown scheme 'http'"),
        ("file://host/builds", "names a host, 'host'; use file:///host/builds with three slashes"),
        ("s3://", "no bucket is given"),
        ("s3://bucket?zone=a", "unknown option 'zone'; use endpoint or region"),
        ("s3://bucket?endpoint=s3.example.com", "use a URL such as https"),
        ("s3://key:secret@bucket/a", "^s3://bucket: the URL contains credentials; remove them"),
        ("oci://me:secret@r.example.com/a", "the URL contains credentials"),
    ],
)
def test_invalid_location_is_rejected(text: str, message: str) -> None:
    with pytest.raises(StoreNotUsable, match=message) as rejected:
        parse_location(text, {})
    assert "secret" not in str(rejected.value)
