/** States by colour, shape and text: never by colour alone. */
import type { ComponentChildren, JSX } from "preact";

/** Severity of a state: healthy, progressing, waiting, degraded, failed, inactive. */
export type Tone = "good" | "busy" | "wait" | "warn" | "bad" | "idle";

const marks: Record<Tone, JSX.Element> = {
  good: <circle cx="6" cy="6" r="4" class="solid" />,
  busy: (
    <>
      <circle cx="6" cy="6" r="4" />
      <path d="M6 2a4 4 0 0 1 0 8z" class="solid" />
    </>
  ),
  wait: <circle cx="6" cy="6" r="4" stroke-dasharray="2.100 2.100" />,
  warn: <path d="M6 1.500 11 10.500H1z" class="solid" />,
  bad: <path d="M2.500 2.500l7 7M9.500 2.500l-7 7" class="thick" />,
  idle: <circle cx="6" cy="6" r="3.500" />,
};

/** The mark of a state, for use beside its text. */
export function Mark({ tone }: { tone: Tone }): JSX.Element {
  return (
    <svg class={`mark tone-${tone}`} width="12" height="12" viewBox="0 0 12 12" aria-hidden="true">
      {marks[tone]}
    </svg>
  );
}

/** A state: its mark and its text. */
export function State({ tone, children }: { tone: Tone; children: ComponentChildren }): JSX.Element {
  return (
    <span class={`state tone-${tone}`}>
      <Mark tone={tone} />
      <span class="state-text">{children}</span>
    </span>
  );
}

/** A small label, plain or toned. */
export function Badge({
  tone,
  title,
  children,
}: {
  tone?: Tone;
  title?: string;
  children: ComponentChildren;
}): JSX.Element {
  return (
    <span class={tone ? `badge toned tone-${tone}` : "badge"} title={title}>
      {children}
    </span>
  );
}
