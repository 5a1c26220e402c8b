"""Imported once, by the process that `forked` lets fork: see there."""

from tests.harness.preloading import preload

preload()
