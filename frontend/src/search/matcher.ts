/** Finds objects of the cluster by words of their names. Pure. */

/** A search result that can be opened. */
export interface Target {
  /** "Page", or what a row of a table is: "Pod". */
  kind: string;
  name: string;
  detail: string;
  href: () => string | undefined;
}

const MAX_RESULTS = 40;
const MAX_PER_KIND = 8;

/** The best matches, best first; every word has to match. */
export function find(targets: Iterable<Target>, text: string): Target[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const ranked: { target: Target; rank: number; at: number }[] = [];
  let at = 0;
  for (const target of targets) {
    const rank = rankOf(target, words);
    if (rank !== undefined) ranked.push({ target, rank, at });
    at++;
  }
  ranked.sort((one, other) => one.rank - other.rank || one.at - other.at);
  const counts = new Map<string, number>();
  const found: Target[] = [];
  for (const { target } of ranked) {
    const count = counts.get(target.kind) ?? 0;
    if (count >= MAX_PER_KIND) continue;
    counts.set(target.kind, count + 1);
    found.push(target);
    if (found.length >= MAX_RESULTS) break;
  }
  return found;
}

/** Lower is better: the whole name, its start, the start of a part, anywhere, the detail. */
function rankOf(target: Target, words: readonly string[]): number | undefined {
  const name = target.name.toLowerCase();
  let worst = 0;
  for (const word of words) {
    const at = name.indexOf(word);
    let rank: number;
    if (name === word) rank = 0;
    else if (at === 0) rank = 1;
    else if (at > 0 && /[-./ ]/.test(name[at - 1] ?? "")) rank = 2;
    else if (at > 0) rank = 3;
    else if (`${target.kind} ${target.detail}`.toLowerCase().includes(word)) rank = 4;
    else return undefined;
    worst = Math.max(worst, rank);
  }
  return worst;
}
