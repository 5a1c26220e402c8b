/**
 * Access to the map for browser tests: `window.kilonova.fleet`.
 *
 * `nodes` is the number of nodes on the map, `frames` the painting statistics since the map
 * was opened, `at` the centre of a node in client pixels.
 */
import type { FleetMap, Frames } from "./fleet-map";

interface FleetHook {
  readonly nodes: number;
  readonly frames: Frames;
  at(node: string): { x: number; y: number } | undefined;
}

declare global {
  interface Window {
    kilonova?: { fleet?: FleetHook };
  }
}

/** Exposes the map to tests; returns a function that removes it. */
export function exposeForTests(map: FleetMap, canvas: HTMLCanvasElement): () => void {
  const hook: FleetHook = {
    get nodes() {
      return map.layout.tiles.length;
    },
    frames: map.frames,
    at(node) {
      const box = map.boxOf({ node });
      const frame = canvas.getBoundingClientRect();
      return box && { x: frame.left + box.x + box.w / 2, y: frame.top + box.y + box.h / 2 };
    },
  };
  window.kilonova ??= {};
  const shared = window.kilonova;
  shared.fleet = hook;
  return () => {
    if (shared.fleet === hook) delete shared.fleet;
  };
}
