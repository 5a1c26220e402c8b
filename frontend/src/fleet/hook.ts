/**
 * What tests of the page may ask the map: `window.kilonova.fleet`.
 *
 * `nodes` is how many are on the map, `frames` how painting went since the map was
 * opened, `at` where a node's middle is in client pixels, for a mouse to go to.
 */
import type { Frames, FleetMap } from "./map";

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

/** Shows the map to tests; returns how to hide it. */
export function expose(map: FleetMap, canvas: HTMLCanvasElement): () => void {
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
  const shared = (window.kilonova ??= {});
  shared.fleet = hook;
  return () => {
    if (shared.fleet === hook) delete shared.fleet;
  };
}
