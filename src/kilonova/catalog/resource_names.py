"""Names under which Kubernetes counts GPUs: the extended resources of NVIDIA's device plugin."""

import re

GPU = "nvidia.com/gpu"
MIG_PREFIX = "nvidia.com/mig-"


def mig_resource(profile: str) -> str:
    """The extended resource of a MIG profile: `1g.10gb+me` → `nvidia.com/mig-1g.10gb.me`.

    A resource name cannot contain a plus, so NVIDIA's device plugin writes a dot.
    """
    return f"{MIG_PREFIX}{profile.replace('+', '.')}"


def profile_of_resource(resource: str) -> str | None:
    """The MIG profile of an extended resource; None where the resource is not one."""
    found = _PATTERN.fullmatch(resource)
    if found is None:
        return None
    size, variant, without = found.groups()
    return f"{size}+{variant}" if variant else f"{size}{without or ''}"


_PATTERN = re.compile(r"nvidia\.com/mig-(\d+g\.\d+gb)(?:\.([a-z.]+)|(-me))?", re.ASCII)
