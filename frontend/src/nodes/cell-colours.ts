/**
 * The appearance of a node in each colour mode: a pure function of its allocations.
 *
 * A cell is a stack of segments from the bottom up; the rest of it is free.
 */
import { colourIndex, palette } from "../lib/owner-colours";
import {
  colourThemes,
  costColour,
  STATE_TEXTURE,
  type Texture,
  type ThemeName,
  utilisationColour,
} from "./colour-theme";
import { allocatedShare, type FleetNode } from "./gpu-allocations";
import { gpuState, nodeState, type State } from "./state";

export const COLOUR_MODES = ["owner", "health", "allocation", "usage", "cost"] as const;
export type ColourMode = (typeof COLOUR_MODES)[number];

export interface Segment {
  share: number;
  colour: string;
  texture?: Texture;
  /** True if the colour is close to the background, so that text on it needs the background's contrast. */
  pale?: boolean;
}

export interface CellAppearance {
  cells: Segment[][];
  /** Lost GPUs: marked in every colour mode. */
  lost: readonly number[];
  /** The node's CPU meter: for nodes without GPUs, and in the allocation mode. */
  meter: Segment | undefined;
  state: State;
}

export interface ColourContext {
  mode: ColourMode;
  theme: ThemeName;
  /** The highlighted workload, if any. */
  owner: string;
  /** Price of the most expensive GPU, USD per hour. */
  highestPrice: number;
}

/** Alpha suffix for colours of workloads that are not highlighted. */
const FADED_ALPHA = "2a";
const NO_GPUS: readonly number[] = [];

/** The appearance of a node. */
export function appearanceOf(node: FleetNode, context: ColourContext): CellAppearance {
  const cells: Segment[][] = [];
  for (let gpu = 0; gpu < node.gpus.length; gpu++) cells.push(cellOf(node, gpu, context));
  return {
    cells,
    lost: node.row.lost ?? NO_GPUS,
    meter: meterOf(node, context),
    state: nodeState(node.row),
  };
}

/** The colour of a workload on the map. */
export function workloadColour(theme: ThemeName, workload: string): string {
  return palette[theme][colourIndex(workload)] ?? "";
}

function cellOf(node: FleetNode, gpu: number, { mode, theme, owner, highestPrice: dearest }: ColourContext): Segment[] {
  const holders = node.gpus[gpu] ?? [];
  switch (mode) {
    case "owner":
      return holders.map(({ pod, share }) => {
        const colour = workloadColour(theme, pod.workload);
        return { share, colour: owner && owner !== pod.workload ? colour + FADED_ALPHA : colour };
      });
    case "health":
      return [stateSegment(theme, gpuState(node.row, gpu))];
    case "allocation": {
      const allocated = allocatedShare(holders);
      return allocated > 0 ? [{ share: 1, colour: utilisationColour(theme, allocated), pale: allocated < 0.5 }] : [];
    }
    case "usage": {
      const busy = node.readings?.get(gpu)?.utilisation;
      return busy === undefined ? [] : [{ share: 1, colour: utilisationColour(theme, busy), pale: busy < 0.5 }];
    }
    case "cost": {
      const { price } = node.row;
      const colour = price ? costColour(theme, price / dearest) : colourThemes[theme].states.unknown;
      const spent = allocatedShare(holders);
      const idle: Segment = { share: 1 - spent, colour, texture: "hatch" };
      return spent >= 1 ? [{ share: 1, colour }] : spent > 0 ? [{ share: spent, colour }, idle] : [idle];
    }
  }
}

function meterOf(node: FleetNode, { mode, theme }: ColourContext): Segment | undefined {
  if (mode === "allocation") {
    const share = node.usage ? node.usage.cpu : cpuRequested(node);
    return { share, colour: utilisationColour(theme, share) };
  }
  if (node.gpus.length > 0) return undefined;
  if (mode === "health") return stateSegment(theme, nodeState(node.row));
  return { share: cpuRequested(node), colour: colourThemes[theme].states.unknown };
}

function stateSegment(theme: ThemeName, state: State): Segment {
  const texture = STATE_TEXTURE[state];
  const colour = colourThemes[theme].states[state];
  return texture ? { share: 1, colour, texture } : { share: 1, colour };
}

/** Share of the node's CPU that its pods request, 0 to 1. */
export function cpuRequested(node: FleetNode): number {
  let cores = 0;
  for (const pod of node.pods.values()) cores += pod.cpu ?? 0;
  return node.row.cpu > 0 ? Math.min(1, cores / node.row.cpu) : 0;
}
