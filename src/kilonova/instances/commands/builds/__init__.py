"""`kilonova builds` (`command`), and builds for other commands (`source`)."""
