/** Colours of the map's background, states and scales in each theme. */
import type { State } from "./state";

export type Texture = "hatch" | "cross" | "dots" | "bars";
export type ThemeName = "light" | "dark";

export interface ColourTheme {
  ground: string;
  zone: string;
  zoneEdge: string;
  block: string;
  rack: string;
  tile: string;
  /** A free GPU. */
  free: string;
  freeEdge: string;
  text: string;
  faint: string;
  /** Text on an allocated cell. */
  onCell: string;
  nvlink: string;
  nvlinkGlow: string;
  states: Record<State, string>;
  /** Opacity of dimmed nodes. */
  dimmed: number;
}

/** States differ by texture too, not by colour alone. */
export const STATE_TEXTURE: Record<State, Texture | undefined> = {
  healthy: undefined,
  lost: "cross",
  "not ready": "bars",
  cordoned: "hatch",
  unknown: "dots",
};

export const colourThemes: Record<ThemeName, ColourTheme> = {
  dark: {
    ground: "#15161b",
    zone: "#0f1014",
    zoneEdge: "#25272f",
    block: "#16181d",
    rack: "#1f2128",
    tile: "#262932",
    free: "#363b48",
    freeEdge: "#4c5261",
    text: "#ececf1",
    faint: "#9da2b0",
    onCell: "rgba(10, 11, 16, 0.85)",
    nvlink: "#7cc95a",
    nvlinkGlow: "rgba(124, 201, 90, 0.08)",
    states: {
      healthy: "#35b98b",
      lost: "#ff5f66",
      "not ready": "#f79a4b",
      cordoned: "#7aa2ff",
      unknown: "#858a98",
    },
    dimmed: 0.16,
  },
  light: {
    ground: "#ffffff",
    zone: "#f6f6f9",
    zoneEdge: "#e3e3ea",
    block: "#ffffff",
    rack: "#e9e9f0",
    tile: "#fdfdff",
    free: "#e6e7ee",
    freeEdge: "#bfc1cf",
    text: "#17181c",
    faint: "#5d606d",
    onCell: "rgba(255, 255, 255, 0.96)",
    nvlink: "#4f9a26",
    nvlinkGlow: "rgba(79, 154, 38, 0.08)",
    states: {
      healthy: "#2a9d77",
      lost: "#d3303b",
      "not ready": "#d97a00",
      cordoned: "#4a6fd8",
      unknown: "#8a8d99",
    },
    dimmed: 0.14,
  },
};

const STEPS = 32;

/** Allocated share: even steps of lightness, towards the highest contrast. */
const utilisationRamps = {
  dark: ramp((t) => [0.3 + 0.56 * t, 0.05 + 0.11 * t, 285 - 185 * t]),
  light: ramp((t) => [0.92 - 0.5 * t, 0.03 + 0.13 * t, 195 + 90 * t]),
};

/** Price of a GPU: from lowest to highest. */
const costRamps = {
  dark: ramp((t) => [0.6 + 0.24 * t, 0.11 + 0.05 * t, 185 - 115 * t]),
  light: ramp((t) => [0.74 - 0.22 * t, 0.1 + 0.05 * t, 190 - 140 * t]),
};

/** The colour of a share from 0 to 1. */
export function utilisationColour(theme: ThemeName, share: number): string {
  return step(utilisationRamps[theme], share);
}

/** The colour of a price, given as a share of the highest. */
export function costColour(theme: ThemeName, share: number): string {
  return step(costRamps[theme], share);
}

function ramp(at: (t: number) => [number, number, number]): string[] {
  return Array.from({ length: STEPS + 1 }, (_, i) => {
    const [l, c, h] = at(i / STEPS);
    return `oklch(${l.toFixed(3)} ${c.toFixed(3)} ${h.toFixed(1)})`;
  });
}

function step(colours: string[], share: number): string {
  return colours[Math.round(Math.max(0, Math.min(1, share)) * STEPS)] ?? "";
}
