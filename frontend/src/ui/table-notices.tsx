/** Notices for tables that cannot be read or are not loaded yet. */
import type { JSX } from "preact";
import { now } from "../data/clock";
import { loaded } from "../data/store";
import { tableErrors } from "../data/stream";
import { type Notice, noticesOf } from "../data/table-errors";
import { Empty } from "./controls";
import { Mark } from "./state";

/** Above a page: which of its tables cannot be read, and why. Announced to screen readers. */
export function TableNotices({ of }: { of: readonly string[] }): JSX.Element {
  const notices = currentNotices(of);
  return (
    <div class={notices.length ? "table-notices tone-warn" : undefined}>
      <div role="status">
        {notices.map(({ title, advice }) => (
          <div key={title} class="table-notice">
            <Mark tone="warn" />
            <p>
              <b>{title}.</b> <span class="muted">{advice}</span>
            </p>
          </div>
        ))}
      </div>
      {notices.length > 0 && (
        <details class="table-notice-messages">
          <summary>Error messages</summary>
          <ul>
            {notices
              .flatMap((notice) => notice.messages)
              .map((message) => (
                <li key={message}>{message}</li>
              ))}
          </ul>
        </details>
      )}
    </div>
  );
}

/** In place of missing rows: `what` cannot be read, or is still loading. */
export function NotFoundNotice({ of, what }: { of: readonly string[]; what: string }): JSX.Element {
  const [notice] = currentNotices(of);
  return notice ? <Empty title={`${what} cannot be read`}>{notice.title}.</Empty> : <Empty title="Loading…" />;
}

/** Whether all of these tables are loaded, so that a missing row means a missing object. */
export function areLoaded(of: readonly string[]): boolean {
  return of.every((table) => loaded.value.has(table));
}

function currentNotices(of: readonly string[]): Notice[] {
  return tableErrors.value.length ? noticesOf(tableErrors.value, of, loaded.value, now.peek()) : [];
}
