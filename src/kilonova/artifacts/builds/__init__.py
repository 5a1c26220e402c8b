"""Builds: what an instance of a compiled model needs, read from where a build system put it.

A **build** says the agents, the accelerators and memory of each, the topology that they must be in,
and the partitions of the model. It is immutable: another build has another **id**. A **source** is
a place with builds: a directory, a prefix of a bucket, or a repository of an OCI registry.

    source = open_build_source("s3://models/builds")
    build = await source.load("llama32-90b-v7")

Each has a checksum, which is always verified. What is wrong with a build is said by a `BuildError`:
where, what, and how to fix it; its `reason` is one for conditions.
"""

from kilonova.artifacts.builds.build import Build, BuildAccelerator, BuildTopology, Partition
from kilonova.artifacts.builds.errors import (
    BuildError,
    BuildNotFound,
    BuildUnavailable,
    InvalidBuild,
)
from kilonova.artifacts.builds.files import BuildSource, save_build
from kilonova.artifacts.builds.parser import check_build_id, encode_build, parse_build
from kilonova.artifacts.builds.source_factory import open_build_source

__all__ = [
    "Build",
    "BuildAccelerator",
    "BuildError",
    "BuildNotFound",
    "BuildSource",
    "BuildTopology",
    "BuildUnavailable",
    "InvalidBuild",
    "Partition",
    "check_build_id",
    "encode_build",
    "open_build_source",
    "parse_build",
    "save_build",
]
