/** The history of series, fetched from the server while a chart is shown. */
import { useEffect, useState } from "preact/hooks";
import { isTabVisible } from "../app/tab-visibility";
import { readReply } from "../data/actions";
import { serverInfo } from "../data/stream";

/** Ranges and the steps in which the server keeps them; see src/kilonova/console/history/ring.py. */
export const RANGES = { "1h": { title: "1 h", step: 10 }, "24h": { title: "24 h", step: 60 } } as const;
export type Range = keyof typeof RANGES;

/** Values of series at the same times. */
export interface History {
  start: number;
  step: number;
  values: Record<string, (number | null)[]>;
  /** Of one series, by key: those with the greatest values. */
  byKey: Record<string, (number | null)[]>;
}

export type HistoryState = { history: History } | { error: string } | undefined;

/** Series of one key, and one series by key. */
export interface HistoryQuery {
  names: readonly string[];
  key: string;
  byKey: string;
}

/** The history of series; fetched again with every step, and after a reconnect. */
export function useHistory({ names, key, byKey }: HistoryQuery, range: Range): HistoryState {
  const [state, setState] = useState<HistoryState>(undefined);
  const connected = serverInfo.value;
  const visible = isTabVisible.value;
  const list = names.join(",");
  useEffect(() => {
    if (!visible || !connected) return;
    const { step } = RANGES[range];
    const query = new URLSearchParams([
      ["step", `${step}`],
      ["key", key],
      ["by-key", byKey],
    ]);
    for (const name of list.split(",").filter(Boolean)) query.append("name", name);
    const aborter = new AbortController();
    const load = () =>
      fetch(`/api/series?${query}`, { cache: "no-store", signal: aborter.signal })
        .then((reply) => readReply<History>(reply))
        .then((history) => setState({ history }))
        // A lost connection is reported by the banner, and the last history stays.
        .catch((error: Error) => aborter.signal.aborted || setState((last) => last ?? { error: error.message }));
    void load();
    const timer = setInterval(load, step * 1000);
    return () => {
      aborter.abort();
      clearInterval(timer);
    };
  }, [list, key, byKey, range, connected, visible]);
  return state;
}
