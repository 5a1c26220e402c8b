/** Tables that cannot be read, in words. */
import { moment } from "./format";
import type { TableName, Trouble } from "./rows";

/** What stands in the way of some tables. */
export interface Notice {
  title: string;
  /** What to do about it, and what is shown meanwhile. */
  advice: string;
  /** The words of whoever refused. */
  said: string[];
}

/** What a page that shows `tables` has to say; tables that fail for the same reason together. */
export function noticesOf(troubles: readonly Trouble[], tables: readonly TableName[], loaded: ReadonlySet<string>, now: number): Notice[] {
  const mine = tables.flatMap((table) => troubles.filter((trouble) => trouble.table === table));
  const reasons = [...new Set(mine.map((trouble) => trouble.reason))];
  return reasons.map((reason) => {
    const these = mine.filter((trouble) => trouble.reason === reason);
    const stale = these.filter((trouble) => loaded.has(trouble.table));
    const { title, advice } = words[reason](listed(these.map((trouble) => trouble.what)));
    return { title, advice: stale.length ? `${advice} ${asOf(stale, now)}` : advice, said: [...new Set(these.map((trouble) => trouble.message))] };
  });
}

const words: Record<Trouble["reason"], (names: string) => { title: string; advice: string }> = {
  forbidden: (names) => ({
    title: `No right to read ${names}`,
    advice: "Give the console's account the right to list and watch them (deploy/console/clusterrole.yaml has all that it needs): the page then fills by itself.",
  }),
  unauthorized: (names) => ({
    title: `The cluster does not know who reads ${names}`,
    advice: "The console's credentials may have expired: renew them, and start it again.",
  }),
  unreachable: () => ({
    title: "The cluster does not answer",
    advice: "Is it running? “kilonova doctor” looks. The console tries again by itself.",
  }),
  refused: (names) => ({
    title: `The cluster does not give ${names}`,
    advice: "The console tries again by itself.",
  }),
};

function asOf(stale: readonly Trouble[], now: number): string {
  const names = listed(stale.map((trouble) => trouble.what));
  return `What you see of ${names} is as it was at ${moment(Math.min(...stale.map((trouble) => trouble.since)), now)}.`;
}

function listed(names: readonly string[]): string {
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}
