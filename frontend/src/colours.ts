/**
 * A colour for each owner of GPUs.
 *
 * An owner has the colour that its name says, unless another has it already and a free one is left.
 * Owners get theirs by age, so that a page that is opened again gives the same.
 */
import { tables } from "./store";

/** Fourteen colours that can be told apart, for each theme; also the variables --owner-0 … -13. */
export const palette = {
  light: [
    "#4f5bd5", "#d9572b", "#1a8f6a", "#b83280", "#8a6d00", "#0e7fb8", "#7a4fc9",
    "#c23b3b", "#4d8a1f", "#c77700", "#5a6b80", "#0b8f94", "#a0522d", "#cf4fa8",
  ],
  dark: [
    "#7f8cff", "#ff8559", "#3ecf9b", "#f06bb3", "#d6b63c", "#4db8f0", "#b08cff",
    "#f47272", "#8fcc55", "#ffb04d", "#93a5bd", "#3fd0d4", "#d08a62", "#f394d8",
  ],
} as const;

const COUNT = palette.light.length;
const given = new Map<string, number>();
const users = new Array<number>(COUNT).fill(0);
const pods = new Map<string, number>();
/** Owners that came since colours were last given, by when. */
const fresh = new Map<string, number>();

tables.pods.watch((after, before) => {
  if (after?.gpus) arrive(after.workload, after.created ?? 0);
  if (before?.gpus) leave(before.workload);
});

/** Which of the palette's colours an owner has. */
export function colourIndex(owner: string): number {
  if (fresh.size) give();
  return given.get(owner) ?? hashed(owner);
}

/** An owner's colour for styles, right in both themes. */
export function ownerColour(owner: string): string {
  return `var(--owner-${colourIndex(owner)})`;
}

function arrive(owner: string, created: number): void {
  pods.set(owner, (pods.get(owner) ?? 0) + 1);
  if (!given.has(owner)) fresh.set(owner, Math.min(created, fresh.get(owner) ?? Infinity));
}

function leave(owner: string): void {
  const left = (pods.get(owner) ?? 0) - 1;
  if (left > 0) {
    pods.set(owner, left);
    return;
  }
  pods.delete(owner);
  fresh.delete(owner);
  const colour = given.get(owner);
  given.delete(owner);
  if (colour !== undefined) users[colour] = (users[colour] ?? 1) - 1;
}

function give(): void {
  const byAge = [...fresh].sort(([one, at], [other, then]) => at - then || (one < other ? -1 : 1));
  fresh.clear();
  for (const [owner] of byAge) {
    const fewest = Math.min(...users);
    let colour = hashed(owner);
    while (users[colour] !== fewest) colour = (colour + 5) % COUNT;
    users[colour] = fewest + 1;
    given.set(owner, colour);
  }
}

function hashed(owner: string): number {
  let hash = 2166136261;
  for (let at = 0; at < owner.length; at++) hash = Math.imul(hash ^ owner.charCodeAt(at), 16777619);
  hash ^= hash >>> 15;
  hash = Math.imul(hash, 0x2c1b3c6d);
  hash ^= hash >>> 13;
  return (hash >>> 0) % COUNT;
}
