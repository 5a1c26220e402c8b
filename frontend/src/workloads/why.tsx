/** Why a gang or a pod waits, or stands where it does: the scheduler's own answer. */
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { said } from "../actions";
import { now } from "../clock";
import { apart, duration, moment } from "../format";
import { shortWords } from "./states";

interface Answer {
  state: "Placed" | "Waiting" | "Next" | "NotYet";
  explanation: {
    binding: { text: string; kind: string };
    tallies: { group: string; line: string }[];
    changes: { text: string }[];
    expected_start: number | null;
  } | null;
  next: { pods: { pod: string; node: string }[]; evicted: { gang: string; pods: string[] }[] } | null;
  not_yet: { reason: string; message: string } | null;
}

interface Why {
  text: string;
  answer: Answer;
}

const AGAIN_MS = 15_000;

/** Asks when it is shown, when `hint` (what the condition says) changes, and now and then. */
export function WhyPending({ id, hint }: { id: string; hint: string }): JSX.Element {
  const { why, failed } = useWhy(id, hint);
  if (failed) {
    return (
      <div class="why">
        <p class="why-binding">{sentence(hint)}</p>
        <p class="faint">{failed}</p>
      </div>
    );
  }
  if (!why) return <div class="why"><p class="why-binding">{sentence(hint)}</p></div>;
  return (
    <div class="why">
      <Words answer={why.answer} hint={hint} />
      <PlainText text={why.text} />
    </div>
  );
}

function Words({ answer, hint }: { answer: Answer; hint: string }): JSX.Element {
  const { explanation, not_yet: notYet, next } = answer;
  if (notYet) return <p class="why-binding">{sentence(notYet.message)}</p>;
  if (next) {
    return (
      <>
        <p class="why-binding">It gets a place as soon as it is its turn.</p>
        {next.evicted.map((each) => (
          <p key={each.gang}>For it go {each.pods.join(", ")} of {each.gang}.</p>
        ))}
      </>
    );
  }
  if (!explanation) return <p class="why-binding">{answer.state === "Placed" ? "It has its place." : sentence(hint)}</p>;
  const [smallest, ...others] = explanation.changes;
  const start = explanation.expected_start;
  return (
    <>
      <p class="why-binding">{sentence(explanation.binding.text)}</p>
      <dl class="why-facts">
        <div>
          <dt>Smallest change</dt>
          <dd>
            {smallest ? sentence(smallest.text) : "No single change was found that would let it in."}
            {others.length > 0 && (
              <ul class="why-others">
                {others.map((each) => <li key={each.text}>or {spoken(each.text)}</li>)}
              </ul>
            )}
          </dd>
        </div>
        <div>
          <dt>Expected start</dt>
          <dd>
            {start === null ? "Nobody can tell." : `in ${duration(Math.max(0, Math.round(start - now.value)))}, at ${moment(start, now.value)}`}
          </dd>
        </div>
        {explanation.tallies.length > 0 && (
          <div>
            <dt>What nodes say</dt>
            <dd>{explanation.tallies.map((each) => <p key={each.group}><b>{each.group}</b> {shortWords(each.line)}</p>)}</dd>
          </div>
        )}
      </dl>
    </>
  );
}

/** The answer about something that stands, asked for only when it is opened. */
export function WhyHere({ id }: { id: string }): JSX.Element {
  const [open, setOpen] = useState(false);
  return (
    <details class="fold" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Why it stands here</summary>
      {open && <Standing id={id} />}
    </details>
  );
}

function Standing({ id }: { id: string }): JSX.Element {
  const { why, failed } = useWhy(id, "");
  return failed ? <p class="faint">{failed}</p> : <pre class="code wrapped">{why?.text ?? "…"}</pre>;
}

function PlainText({ text }: { text: string }): JSX.Element {
  return (
    <details class="fold">
      <summary>As text</summary>
      <pre class="code wrapped">{text}</pre>
    </details>
  );
}

function useWhy(id: string, hint: string): { why: Why | undefined; failed: string | undefined } {
  const [found, setFound] = useState<{ id: string; why?: Why; failed?: string }>({ id });
  useEffect(() => {
    let current = true;
    const { namespace, name } = apart(id);
    const asking = async () => {
      try {
        const why = await said<Why>(await fetch(`/api/why?${new URLSearchParams({ namespace, name })}`));
        if (current) setFound({ id, why });
      } catch (error) {
        if (current) setFound({ id, failed: (error as Error).message });
      }
    };
    void asking();
    const again = setInterval(asking, AGAIN_MS);
    return () => {
      current = false;
      clearInterval(again);
    };
  }, [id, hint]);
  const mine = found.id === id ? found : undefined;
  return { why: mine?.why, failed: mine?.failed };
}

function sentence(text: string): string {
  const said = spoken(text);
  const whole = said.charAt(0).toUpperCase() + said.slice(1);
  return whole.endsWith(".") ? whole : `${whole}.`;
}

/** In short words, with the times of day that people here have; begins as it did. */
function spoken(text: string): string {
  const first = text.charAt(0);
  const told = first + shortWords(text).slice(1);
  return told.replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, (time) => moment(Date.parse(time) / 1000, now.peek()));
}
