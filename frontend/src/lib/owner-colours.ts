/**
 * A colour for each owner of GPUs.
 *
 * An owner has the colour given by the hash of its name, unless that is in use and another is free.
 * Colours are assigned by age, so that a reloaded page assigns the same ones.
 */
import { tables } from "../data/store";

/** Fourteen distinguishable colours for each theme; also the CSS variables --owner-0 … -13. */
export const palette = {
  light: [
    "#4f5bd5",
    "#d9572b",
    "#1a8f6a",
    "#b83280",
    "#8a6d00",
    "#0e7fb8",
    "#7a4fc9",
    "#c23b3b",
    "#4d8a1f",
    "#c77700",
    "#5a6b80",
    "#0b8f94",
    "#a0522d",
    "#cf4fa8",
  ],
  dark: [
    "#7f8cff",
    "#ff8559",
    "#3ecf9b",
    "#f06bb3",
    "#d6b63c",
    "#4db8f0",
    "#b08cff",
    "#f47272",
    "#8fcc55",
    "#ffb04d",
    "#93a5bd",
    "#3fd0d4",
    "#d08a62",
    "#f394d8",
  ],
} as const;

const COUNT = palette.light.length;
const colourByOwner = new Map<string, number>();
const users = new Array<number>(COUNT).fill(0);
const podCounts = new Map<string, number>();
/** Owners without a colour yet, with their creation time. */
const unassigned = new Map<string, number>();

tables.pods.watch((after, before) => {
  if (after?.gpus) addPod(after.workload, after.created ?? 0);
  if (before?.gpus) removePod(before.workload);
});

/** The index of an owner's colour in the palette. */
export function colourIndex(owner: string): number {
  if (unassigned.size) assignColours();
  return colourByOwner.get(owner) ?? hashColour(owner);
}

/** An owner's colour for styles, valid in both themes. */
export function ownerColour(owner: string): string {
  return `var(--owner-${colourIndex(owner)})`;
}

function addPod(owner: string, created: number): void {
  podCounts.set(owner, (podCounts.get(owner) ?? 0) + 1);
  if (!colourByOwner.has(owner)) unassigned.set(owner, Math.min(created, unassigned.get(owner) ?? Infinity));
}

function removePod(owner: string): void {
  const left = (podCounts.get(owner) ?? 0) - 1;
  if (left > 0) {
    podCounts.set(owner, left);
    return;
  }
  podCounts.delete(owner);
  unassigned.delete(owner);
  const colour = colourByOwner.get(owner);
  colourByOwner.delete(owner);
  if (colour !== undefined) users[colour] = (users[colour] ?? 1) - 1;
}

function assignColours(): void {
  const byAge = [...unassigned].sort(([one, at], [other, then]) => at - then || (one < other ? -1 : 1));
  unassigned.clear();
  for (const [owner] of byAge) {
    const fewest = Math.min(...users);
    let colour = hashColour(owner);
    while (users[colour] !== fewest) colour = (colour + 5) % COUNT;
    users[colour] = fewest + 1;
    colourByOwner.set(owner, colour);
  }
}

function hashColour(owner: string): number {
  let hash = 2166136261;
  for (let at = 0; at < owner.length; at++) hash = Math.imul(hash ^ owner.charCodeAt(at), 16777619);
  hash ^= hash >>> 15;
  hash = Math.imul(hash, 0x2c1b3c6d);
  hash ^= hash >>> 13;
  return (hash >>> 0) % COUNT;
}
