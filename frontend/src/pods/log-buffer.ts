/** The last lines of a growing log; older ones are dropped. Pure. */

const MAX_LINES = 5000;
const MAX_CHARACTERS = 1_000_000;

/** Appends text, and drops whole lines from the start beyond MAX_LINES and MAX_CHARACTERS. */
export function appendLines(text: string, more: string): string {
  let all = text + more;
  if (all.length > MAX_CHARACTERS) all = fromLine(all, all.length - MAX_CHARACTERS);
  let lines = 0;
  // Count from the end: most logs are shorter than the limit.
  for (let at = all.length - 1; at >= 0; at--) {
    if (all.charCodeAt(at) === 10 && at < all.length - 1 && ++lines >= MAX_LINES) return all.slice(at + 1);
  }
  return all;
}

/** The text after the first line end at or after an offset. */
function fromLine(text: string, offset: number): string {
  const end = text.indexOf("\n", offset);
  return end < 0 ? text.slice(offset) : text.slice(end + 1);
}
