"""`/etc/hosts` of a pod: its own name, its host aliases, and what this machine knows. Pure."""

from kilonova.local.nodes.process.kubelet.pods import Pod

PATH = "/etc/hosts"


def hosts_text(pod: Pod, hostname: str, address: str, machine: str) -> str:
    """The file, as a kubelet writes it; `machine` is this machine's, which comes last."""
    lines = ["# Kubernetes-managed hosts file."]
    if address:
        lines.append(f"{address}\t{_names(pod, hostname)}")
    if pod.spec.host_aliases:
        lines += ["", "# Entries added by HostAliases."]
        lines += ["\t".join((each.ip, *each.hostnames)) for each in pod.spec.host_aliases]
    return "\n".join([*lines, "", "# Entries of this machine.", machine])


def _names(pod: Pod, hostname: str) -> str:
    if not pod.spec.subdomain or pod.spec.host_network:
        return hostname
    domain = f"{pod.spec.subdomain}.{pod.metadata.namespace}.svc.cluster.local"
    return f"{hostname}.{domain}\t{hostname}"
