"""The PodCliqueScalingGroups of one replica: state, updates and status. Pure."""
