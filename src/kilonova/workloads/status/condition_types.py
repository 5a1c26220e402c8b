"""Types of conditions that cliques, scaling groups and sets have in common."""

MIN_AVAILABLE_BREACHED = "MinAvailableBreached"
UPDATE_IN_PROGRESS = "UpdateInProgress"
