/** Names of topology levels by node label. */

const names: Record<string, string> = {
  "topology.kubernetes.io/region": "region",
  "topology.kubernetes.io/zone": "zone",
  "kubernetes.io/hostname": "node",
  "nvidia.com/gpu.clique": "NVLink domain",
};

/** The name of a label's level: "block" for "kilonova.dev/block". */
export function levelName(label: string): string {
  return names[label] ?? label.slice(label.lastIndexOf("/") + 1);
}
