"""The console's HTTP API: routes (`handlers`), token authentication, actions, logs, responses."""
