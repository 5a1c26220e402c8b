"""Pod workers, and a pod's resources on this machine: directory, address, hosts file."""
