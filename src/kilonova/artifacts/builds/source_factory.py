"""Opens the source of builds that a URL names."""

from pathlib import Path

from kilonova.artifacts.builds.errors import BuildUnavailable
from kilonova.artifacts.builds.files import BuildSource, DirectoryBuilds, StoredBuilds
from kilonova.objectstore import ObjectStoreError, S3Settings, S3Store
from kilonova.objectstore.locations import parse_location
from kilonova.objectstore.oci.location import OciLocation


def open_build_source(url: str) -> BuildSource:
    """The source in a directory (also `file://`), `s3://bucket/prefix` or
    `oci://registry/repository`; nothing is read yet. `BuildUnavailable` if the URL names none."""
    try:
        location = parse_location(url)
    except ObjectStoreError as error:
        raise BuildUnavailable(error.where, error.problem, error.fix) from error
    match location:
        case Path():
            return DirectoryBuilds(location)
        case S3Settings():
            return StoredBuilds(S3Store(location))
        case OciLocation():
            from kilonova.artifacts.builds.oci import RegistryBuilds  # aiohttp is slow to import

            if location.reference:
                fix = f"use {location.name}; the id of a build is its tag"
                raise BuildUnavailable(url, "the location names one artifact", fix)
            return RegistryBuilds(location)
