"""`/etc/hosts` of a pod: its own name, its host aliases, and the machine's entries. Pure."""

from kilonova.local.processnode.kubelet.objects import Pod

HOSTS_PATH = "/etc/hosts"


def build_hosts_file(pod: Pod, hostname: str, address: str, host_entries: str) -> str:
    """The file as a kubelet writes it; `host_entries` are the machine's and come last."""
    lines = ["# Kubernetes-managed hosts file."]
    if address:
        lines.append(f"{address}\t{_pod_host_names(pod, hostname)}")
    if pod.spec.host_aliases:
        lines += ["", "# Entries added by HostAliases."]
        lines += ["\t".join((each.ip, *each.hostnames)) for each in pod.spec.host_aliases]
    return "\n".join([*lines, "", "# Entries of this machine.", host_entries])


def _pod_host_names(pod: Pod, hostname: str) -> str:
    if not pod.spec.subdomain or pod.spec.host_network:
        return hostname
    domain = f"{pod.spec.subdomain}.{pod.metadata.namespace}.svc.cluster.local"
    return f"{hostname}.{domain}\t{hostname}"
