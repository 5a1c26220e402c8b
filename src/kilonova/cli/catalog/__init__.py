"""`kilonova catalog`: the catalog as tables."""
