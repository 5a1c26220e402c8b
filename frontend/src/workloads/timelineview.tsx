/** The timeline of a gang from apply to Ready, drawn. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { now } from "../clock";
import { apart, counted, duration, moment } from "../format";
import { narrow } from "../media";
import type { GangRow, PodRow } from "../rows";
import { commonPrefix, ticks, tickWords, timelineOf, type Step, type Timeline } from "./timeline";

const SHOWN = 16;
const steps: Record<Step, string> = {
  waits: "waits for a place",
  starts: "is being started",
  readies: "gets ready",
  runs: "ran",
};

/** Bars of the pods over time, with the gang's milestones. */
export function TimelineView({ gang, pods }: { gang: GangRow | undefined; pods: readonly PodRow[] }): JSX.Element | null {
  const [all, setAll] = useState(false);
  const unfinished = gang ? gang.readyAt === undefined : pods.some((pod) => pod.readyAt === undefined && pod.finished === undefined);
  const timeline = timelineOf(gang, pods, unfinished ? now.value : now.peek());
  if (!timeline) return null;
  const span = timeline.to - timeline.from;
  const at = (time: number) => `${((time - timeline.from) / span) * 100}%`;
  const ended = timeline.milestones.some((each) => each.name === "ended");
  const bars = all ? timeline.bars : timeline.bars.slice(0, SHOWN);
  const prefix = gang ? `${apart(gang.id).name}-` : commonPrefix(timeline.bars.map((bar) => apart(bar.pod.id).name));
  // The last label has room before the end.
  const axis = narrow.value ? ticks(span * 0.84, 4) : ticks(span * 0.92);
  return (
    <figure class="timeline">
      <Milestones timeline={timeline} />
      <div class="timeline-grid" aria-hidden="true">
        <div class="timeline-axis">
          {axis.map((tick) => (
            <span key={tick} class="tick" style={{ left: at(timeline.from + tick) }}>{tickWords(tick, axis[1] ?? span)}</span>
          ))}
        </div>
        {timeline.milestones.map((each) => (
          <div key={each.name} class="milestone-lane">
            <span class={`milestone ${each.name}`} style={{ left: at(each.at) }} />
          </div>
        ))}
        {bars.map((bar) => {
          const { name } = apart(bar.pod.id);
          const short = name.startsWith(prefix) ? name.slice(prefix.length) : name;
          return (
            <div key={bar.pod.id} class="timeline-row">
              <span class="timeline-name" title={bar.pod.id}>{narrow.value ? short.split("-").slice(-2).join("-") : short}</span>
              <span class="timeline-track">
                {bar.stretches.map((each) => (
                  <span
                    key={each.step}
                    class={`stretch ${each.step}${each.open ? " open" : ""}`}
                    title={`${name} ${steps[each.step]}: ${duration(each.to - each.from)}${each.open ? " so far" : ""}`}
                    style={{ left: at(each.from), width: `max(2px, ${((each.to - each.from) / span) * 100}%)` }}
                  />
                ))}
              </span>
            </div>
          );
        })}
      </div>
      <figcaption class="timeline-legend">
        <span><i class="stretch waits" />waits for a place</span>
        <span><i class="stretch starts" />starts</span>
        {ended ? <span><i class="stretch runs" />ran</span> : <span><i class="stretch readies" />gets ready</span>}
        {timeline.bars.length > SHOWN && (
          <button type="button" class="link" onClick={() => setAll(!all)}>
            {all ? "show fewer" : `show all ${timeline.bars.length} pods`}
          </button>
        )}
        {timeline.later > 0 && <span class="faint">{counted(timeline.later, "pod")} came later</span>}
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
  const since = (each: { at: number }) => (each.at - timeline.from < 1 ? "within a second" : `after ${duration(each.at - timeline.from)}`);
  return (
    <p class="milestones">
      <span title={applied && moment(applied.at, now.peek())}><b>Applied</b> {applied && moment(applied.at, now.peek())}</span>
      <span class={placed ? "placed" : "faint"}><b>Placed</b> {placed ? since(placed) : "not yet"}</span>
      {ended ? (
        <span class="ended"><b>Ended</b> {since(ended)}</span>
      ) : (
        <span class={ready ? "ready" : "faint"}>
          <b>Ready</b> {ready ? since(ready) : `not yet, ${duration(Math.floor(timeline.to - timeline.from))} so far`}
        </span>
      )}
    </p>
  );
}
