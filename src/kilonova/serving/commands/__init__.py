"""The commands of `kilonova` for inference services and model servers."""
