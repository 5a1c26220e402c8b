"""PersistentVolumes and PersistentVolumeClaims: informers, index, volume capacity.

`VolumeCache` turns volumes into node constraints and countable resources; `binding.volume_binder`
binds the claims of a placed gang. A **volume pool** is a set of equal free volumes.
"""
