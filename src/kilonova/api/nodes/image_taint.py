"""The taint of nodes that do not pull images, and the toleration of pods that can run there."""

from kilonova.api.json import JsonObject

KEY = "kilonova.dev/images"
VALUE = "not-pulled"
EFFECT = "NoSchedule"
TOLERATION: JsonObject = {"key": KEY, "operator": "Exists", "effect": EFFECT}
