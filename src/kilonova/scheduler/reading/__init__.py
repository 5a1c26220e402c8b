"""What the API server holds, as values that `core` decides on."""
