"""`python -m kilonova.cli`: the same as `kilonova`."""

from kilonova.cli import main

main()
