/**
 * What a node looks like under each colouring: pure, from holdings to segments.
 *
 * A cell is a stack of segments from the bottom up; what they leave open is free.
 */
import { colourIndex, palette } from "../colours";
import { heldShare, type FleetNode } from "./holdings";
import { costColour, skins, STATE_TEXTURE, useColour, type Texture, type ThemeName } from "./skin";
import { gpuState, nodeState, type State } from "./state";

export const MODES = ["owner", "health", "allocation", "cost"] as const;
export type Mode = (typeof MODES)[number];

export interface Segment {
  share: number;
  colour: string;
  texture?: Texture;
  /** True where the colour is close to the ground, so that text on it has to stand out from that. */
  pale?: boolean;
}

export interface Look {
  cells: Segment[][];
  /** GPUs that are lost: marked under every colouring. */
  lost: readonly number[];
  /** The node's own meter: CPU, for nodes without GPUs and where CPU use is what is shown. */
  meter: Segment | undefined;
  state: State;
}

export interface Colouring {
  mode: Mode;
  theme: ThemeName;
  /** The workload that stands out among others, if any. */
  owner: string;
  /** Price of the dearest GPU, USD per hour. */
  dearest: number;
}

/** Alpha that is put behind a colour of the palette. */
const FADED = "2a";
const NOTHING: readonly number[] = [];

/** What a node looks like. */
export function lookOf(node: FleetNode, colouring: Colouring): Look {
  const cells: Segment[][] = [];
  for (let gpu = 0; gpu < node.gpus.length; gpu++) cells.push(cellOf(node, gpu, colouring));
  return {
    cells,
    lost: node.row.lost ?? NOTHING,
    meter: meterOf(node, colouring),
    state: nodeState(node.row),
  };
}

/** The colour of a workload on the map. */
export function workloadColour(theme: ThemeName, workload: string): string {
  return palette[theme][colourIndex(workload)] ?? "";
}

function cellOf(node: FleetNode, gpu: number, { mode, theme, owner, dearest }: Colouring): Segment[] {
  const holders = node.gpus[gpu] ?? [];
  switch (mode) {
    case "owner":
      return holders.map(({ pod, share }) => {
        const colour = workloadColour(theme, pod.workload);
        return { share, colour: owner && owner !== pod.workload ? colour + FADED : colour };
      });
    case "health":
      return [stateSegment(theme, gpuState(node.row, gpu))];
    case "allocation": {
      const given = heldShare(holders);
      return given > 0 ? [{ share: 1, colour: useColour(theme, given), pale: given < 0.5 }] : [];
    }
    case "cost": {
      const { price } = node.row;
      const colour = price ? costColour(theme, price / dearest) : skins[theme].states.unknown;
      const spent = heldShare(holders);
      const idle: Segment = { share: 1 - spent, colour, texture: "hatch" };
      return spent >= 1 ? [{ share: 1, colour }] : spent > 0 ? [{ share: spent, colour }, idle] : [idle];
    }
  }
}

function meterOf(node: FleetNode, { mode, theme }: Colouring): Segment | undefined {
  if (mode === "allocation") {
    const share = node.usage ? node.usage.cpu : cpuRequested(node);
    return { share, colour: useColour(theme, share) };
  }
  if (node.gpus.length > 0) return undefined;
  if (mode === "health") return stateSegment(theme, nodeState(node.row));
  return { share: cpuRequested(node), colour: skins[theme].states.unknown };
}

function stateSegment(theme: ThemeName, state: State): Segment {
  const texture = STATE_TEXTURE[state];
  const colour = skins[theme].states[state];
  return texture ? { share: 1, colour, texture } : { share: 1, colour };
}

/** Part of the node's cores that its pods asked for, 0 to 1. */
export function cpuRequested(node: FleetNode): number {
  let cores = 0;
  for (const pod of node.pods.values()) cores += pod.cpu ?? 0;
  return node.row.cpu > 0 ? Math.min(1, cores / node.row.cpu) : 0;
}
