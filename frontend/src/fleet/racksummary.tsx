/** The map in words, rack by rack, for those who do not see it. */
import type { JSX } from "preact";
import { memo } from "preact/compat";
import { useMemo, useState, useEffect } from "preact/hooks";
import { counted, exact, number } from "../format";
import { holdings } from "./follow";
import { placesOf, THIS_MACHINE } from "./places";

const EVERY_MS = 5000;

/** Words change slowly: a screen reader would lose its place in ones that do not. */
export const RackSummary = memo(function RackSummary(): JSX.Element {
  const [at, setAt] = useState(0);
  useEffect(() => {
    const first = setTimeout(() => setAt((n) => n + 1), 500);
    const timer = setInterval(() => setAt((n) => n + 1), EVERY_MS);
    return () => {
      clearTimeout(first);
      clearInterval(timer);
    };
  }, []);
  const lines = useMemo(rackLines, [at]);
  return (
    <ul class="visually-hidden" aria-label="GPUs by rack">
      {lines.map(([key, text]) => <li key={key}>{text}</li>)}
    </ul>
  );
});

function rackLines(): [string, string][] {
  const lines: [string, string][] = [];
  for (const zone of placesOf([...holdings.nodes.values()].map((node) => node.row))) {
    for (const block of zone.blocks) {
      for (const rack of block.racks) {
        const held = rack.nodes.reduce((sum, row) => sum + (holdings.nodes.get(row.id)?.held ?? 0), 0);
        const here = zone.name === THIS_MACHINE;
        const where = [!here && zone.name && `zone ${zone.name}`, block.name && `block ${block.name}`].filter(Boolean).join(", ");
        const gpus = rack.gpus ? `, ${exact(held)} of ${number(rack.gpus)} GPUs held` : "";
        const domain = rack.domain ? ", one NVLink domain" : "";
        const name = rack.name ? `Rack ${rack.name}` : here ? "This machine" : "Nodes without a rack";
        lines.push([
          `${zone.name}/${block.name}/${rack.name}`,
          `${name}${where ? ` in ${where}` : ""}: ${counted(rack.nodes.length, "node")}${gpus}${domain}.`,
        ]);
      }
    }
  }
  return lines;
}
