/** A stable colour for each owner of GPUs. */

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

/** Which of the palette's colours an owner has. */
export function colourIndex(owner: string): number {
  let hash = 2166136261;
  for (let at = 0; at < owner.length; at++) hash = Math.imul(hash ^ owner.charCodeAt(at), 16777619);
  hash ^= hash >>> 15;
  hash = Math.imul(hash, 0x2c1b3c6d);
  hash ^= hash >>> 13;
  return (hash >>> 0) % palette.light.length;
}

/** An owner's colour for styles, right in both themes. */
export function ownerColour(owner: string): string {
  return `var(--owner-${colourIndex(owner)})`;
}
