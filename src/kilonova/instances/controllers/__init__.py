"""Controllers of inference engines, one folder for each kind."""
