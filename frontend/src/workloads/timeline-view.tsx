/** The timeline of a gang from creation to Ready. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { narrow } from "../app/media";
import { now } from "../data/clock";
import type { GangRow, PodRow } from "../data/rows";
import { duration, formatMoment, pluralize, splitId } from "../lib/format";
import { commonPrefix, formatTick, type Phase, type Timeline, ticks, timelineOf } from "./timeline";

const MAX_SHOWN = 16;
const PHASE_TEXT: Record<Phase, string> = {
  pending: "pending",
  starting: "starting",
  unready: "not ready",
  running: "running",
};

/** Bars of the pods over time, with the gang's milestones. */
export function TimelineView({
  gang,
  pods,
}: {
  gang: GangRow | undefined;
  pods: readonly PodRow[];
}): JSX.Element | null {
  const [all, setAll] = useState(false);
  const unfinished = gang
    ? gang.readyAt === undefined
    : pods.some((pod) => pod.readyAt === undefined && pod.finished === undefined);
  const timeline = timelineOf(gang, pods, unfinished ? now.value : now.peek());
  if (!timeline) return null;
  const span = timeline.to - timeline.from;
  const at = (time: number) => `${((time - timeline.from) / span) * 100}%`;
  const ended = timeline.milestones.some((each) => each.name === "ended");
  const bars = all ? timeline.bars : timeline.bars.slice(0, MAX_SHOWN);
  const prefix = gang
    ? `${splitId(gang.id).name}-`
    : commonPrefix(timeline.bars.map((bar) => splitId(bar.pod.id).name));
  // Leave space for the last label.
  const axis = narrow.value ? ticks(span * 0.84, 4) : ticks(span * 0.92);
  return (
    <figure class="timeline">
      <Milestones timeline={timeline} />
      <div class="timeline-grid" aria-hidden="true">
        <div class="timeline-axis">
          {axis.map((tick) => (
            <span key={tick} class="tick" style={{ left: at(timeline.from + tick) }}>
              {formatTick(tick, axis[1] ?? span)}
            </span>
          ))}
        </div>
        {timeline.milestones.map((each) => (
          <div key={each.name} class="milestone-lane">
            <span class={`milestone ${each.name}`} style={{ left: at(each.at) }} />
          </div>
        ))}
        {bars.map((bar) => {
          const { name } = splitId(bar.pod.id);
          const short = name.startsWith(prefix) ? name.slice(prefix.length) : name;
          return (
            <div key={bar.pod.id} class="timeline-row">
              <span class="timeline-name" title={bar.pod.id}>
                {narrow.value ? short.split("-").slice(-2).join("-") : short}
              </span>
              <span class="timeline-track">
                {bar.spans.map((each) => (
                  <span
                    key={each.phase}
                    class={`phase ${each.phase}${each.open ? " open" : ""}`}
                    title={`${name} ${PHASE_TEXT[each.phase]}: ${duration(each.to - each.from)}${each.open ? " so far" : ""}`}
                    style={{ left: at(each.from), width: `max(2px, ${((each.to - each.from) / span) * 100}%)` }}
                  />
                ))}
              </span>
            </div>
          );
        })}
      </div>
      <figcaption class="timeline-legend">
        <span>
          <i class="phase pending" />
          pending
        </span>
        <span>
          <i class="phase starting" />
          starting
        </span>
        {ended ? (
          <span>
            <i class="phase running" />
            running
          </span>
        ) : (
          <span>
            <i class="phase unready" />
            not ready
          </span>
        )}
        {timeline.bars.length > MAX_SHOWN && (
          <button type="button" class="link" onClick={() => setAll(!all)}>
            {all ? "show fewer" : `show all ${timeline.bars.length} pods`}
          </button>
        )}
        {timeline.later > 0 && <span class="faint">{pluralize(timeline.later, "pod")} created later</span>}
      </figcaption>
    </figure>
  );
}

function Milestones({ timeline }: { timeline: Timeline }): JSX.Element {
  const [applied, ...others] = timeline.milestones;
  const has = (name: string) => others.find((each) => each.name === name);
  const ready = has("ready");
  const ended = has("ended");
  const placed = has("placed");
  const since = (each: { at: number }) =>
    each.at - timeline.from < 1 ? "within a second" : `after ${duration(each.at - timeline.from)}`;
  return (
    <p class="milestones">
      <span title={applied && formatMoment(applied.at, now.peek())}>
        <b>Applied</b> {applied && formatMoment(applied.at, now.peek())}
      </span>
      <span class={placed ? "placed" : "faint"}>
        <b>Placed</b> {placed ? since(placed) : "not yet"}
      </span>
      {ended ? (
        <span class="ended">
          <b>Ended</b> {since(ended)}
        </span>
      ) : (
        <span class={ready ? "ready" : "faint"}>
          <b>Ready</b> {ready ? since(ready) : `not yet, ${duration(Math.floor(timeline.to - timeline.from))} so far`}
        </span>
      )}
    </p>
  );
}
