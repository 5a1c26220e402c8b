/** The last lines of a log that goes on: what is older is given up. Pure. */

const MOST_LINES = 5000;
const MOST_CHARACTERS = 1_000_000;

/** Text with more at its end, from a beginning of a line, and not longer than a page can bear. */
export function extended(text: string, more: string): string {
  let all = text + more;
  if (all.length > MOST_CHARACTERS) all = fromLine(all, all.length - MOST_CHARACTERS);
  let lines = 0;
  // From the end, where the newest are: most logs are shorter.
  for (let at = all.length - 1; at >= 0; at--) {
    if (all.charCodeAt(at) === 10 && at < all.length - 1 && ++lines >= MOST_LINES) return all.slice(at + 1);
  }
  return all;
}

/** The text after the first end of a line at or after a place. */
function fromLine(text: string, place: number): string {
  const end = text.indexOf("\n", place);
  return end < 0 ? text.slice(place) : text.slice(end + 1);
}
