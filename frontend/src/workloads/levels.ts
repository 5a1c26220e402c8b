/** Levels of the topology, by the node labels that say them. */

const names: Record<string, string> = {
  "topology.kubernetes.io/region": "region",
  "topology.kubernetes.io/zone": "zone",
  "kubernetes.io/hostname": "node",
  "nvidia.com/gpu.clique": "NVLink domain",
};

/** What people call the level of a label: "block" for "kilonova.dev/block". */
export function levelName(label: string): string {
  return names[label] ?? label.slice(label.lastIndexOf("/") + 1);
}
