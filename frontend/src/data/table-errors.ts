/** Notices about tables that the server cannot read. */
import { formatMoment } from "../lib/format";
import type { TableError } from "./messages";

/** Why some tables cannot be read. */
export interface Notice {
  title: string;
  /** How to fix it, and what is shown meanwhile. */
  advice: string;
  /** Messages of the API server or the connection. */
  messages: string[];
}

/** Notices for a page that shows `tables`; one for all tables that fail for the same reason. */
export function noticesOf(
  errors: readonly TableError[],
  tables: readonly string[],
  loaded: ReadonlySet<string>,
  now: number,
): Notice[] {
  const relevant = tables.flatMap((table) => errors.filter((error) => error.table === table));
  const reasons = [...new Set(relevant.map((error) => error.reason))];
  return reasons.map((reason) => {
    const failing = relevant.filter((error) => error.reason === reason);
    const stale = failing.filter((error) => loaded.has(error.table));
    const { title, advice } = TEXTS[reason](joinNames(failing.map((error) => error.resource)));
    return {
      title,
      advice: stale.length ? `${advice} ${staleness(stale, now)}` : advice,
      messages: [...new Set(failing.map((error) => error.message))],
    };
  });
}

const TEXTS: Record<TableError["reason"], (names: string) => { title: string; advice: string }> = {
  forbidden: (names) => ({
    title: `Not authorized to read ${names}`,
    advice:
      "Allow the console's service account to list and watch them (deploy/console/clusterrole.yaml has all rules that it needs); the page then updates by itself.",
  }),
  unauthorized: (names) => ({
    title: `The API server rejected the console's credentials for ${names}`,
    advice: "They may have expired: renew them, and restart the console.",
  }),
  unreachable: () => ({
    title: "The API server is unreachable",
    advice: "Run “kilonova doctor” to check the cluster. The console retries automatically.",
  }),
  rejected: (names) => ({
    title: `The API server failed to list or watch ${names}`,
    advice: "The console retries automatically.",
  }),
};

function staleness(stale: readonly TableError[], now: number): string {
  const names = joinNames(stale.map((error) => error.resource));
  return `The page shows ${names} as of ${formatMoment(Math.min(...stale.map((error) => error.since)), now)}.`;
}

function joinNames(names: readonly string[]): string {
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}
