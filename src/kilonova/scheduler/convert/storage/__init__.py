"""PersistentVolumeClaims and PersistentVolumes as node constraints and countable resources."""
