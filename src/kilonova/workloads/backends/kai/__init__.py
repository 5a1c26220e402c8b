"""The KAI backend: KAI's PodGroups and Topologies. Pure."""
