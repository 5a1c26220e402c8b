"""Conversion between API objects and the values of `core`.

`convert_x` turns an API object (`scheduler.objects`) into a value of core, `encode_x` the reverse.
`GangNotReady` is a gang that cannot be scheduled as it is, with a reason; `InvalidRequest` is an
error in a pod's requests or annotations. One package per subject: `gangs`, `pods`, `devices` (DRA),
`storage`, `reservations`.
"""
