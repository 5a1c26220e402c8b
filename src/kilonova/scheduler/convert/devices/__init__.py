"""Dynamic resource allocation: ResourceSlices, DeviceClasses, ResourceClaims, in both
directions."""
