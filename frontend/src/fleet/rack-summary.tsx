/** A text alternative to the map for screen readers, rack by rack. */
import type { JSX } from "preact";
import { memo } from "preact/compat";
import { useEffect, useMemo, useState } from "preact/hooks";
import { formatExact, number, pluralize } from "../lib/format";
import { allocations } from "../nodes/live-allocations";
import { groupByTopology, THIS_MACHINE } from "../nodes/topology-tree";

const REFRESH_MS = 5000;

/** Updated every few seconds only: a screen reader loses its position when the text changes often. */
export const RackSummary = memo(function RackSummary(): JSX.Element {
  const [at, setAt] = useState(0);
  useEffect(() => {
    const first = setTimeout(() => setAt((n) => n + 1), 500);
    const timer = setInterval(() => setAt((n) => n + 1), REFRESH_MS);
    return () => {
      clearTimeout(first);
      clearInterval(timer);
    };
  }, []);
  const lines = useMemo(rackLines, [at]);
  return (
    <ul class="visually-hidden" aria-label="GPUs by rack">
      {lines.map(([key, text]) => (
        <li key={key}>{text}</li>
      ))}
    </ul>
  );
});

function rackLines(): [string, string][] {
  const lines: [string, string][] = [];
  for (const zone of groupByTopology([...allocations.nodes.values()].map((node) => node.row))) {
    for (const block of zone.blocks) {
      for (const rack of block.racks) {
        const allocated = rack.nodes.reduce((sum, row) => sum + (allocations.nodes.get(row.id)?.allocated ?? 0), 0);
        const here = zone.name === THIS_MACHINE;
        const where = [!here && zone.name && `zone ${zone.name}`, block.name && `block ${block.name}`]
          .filter(Boolean)
          .join(", ");
        const gpus = rack.gpus ? `, ${formatExact(allocated)} of ${number(rack.gpus)} GPUs allocated` : "";
        const domain = rack.domain ? ", one NVLink domain" : "";
        const name = rack.name ? `Rack ${rack.name}` : here ? "This machine" : "Nodes without a rack";
        lines.push([
          `${zone.name}/${block.name}/${rack.name}`,
          `${name}${where ? ` in ${where}` : ""}: ${pluralize(rack.nodes.length, "node")}${gpus}${domain}.`,
        ]);
      }
    }
  }
  return lines;
}
