"""The labels of NVIDIA's mig-manager, without imports: agents look for them before they need any
other part of this package."""

CONFIG_LABEL = "nvidia.com/mig.config"
"""The config that a node is to have."""
STATE_LABEL = "nvidia.com/mig.config.state"
"""The state that answers it."""
