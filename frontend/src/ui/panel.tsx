/** The panel with the details of the selected object. */
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { onEscape } from "../app/keys";
import { Icon } from "./icons";

/** Takes the focus when it opens, closes with Esc, and restores the focus. */
export function Panel({
  title,
  subtitle,
  badge,
  actions,
  onClose,
  children,
}: {
  title: ComponentChildren;
  subtitle?: ComponentChildren;
  badge?: ComponentChildren;
  actions?: ComponentChildren;
  onClose: () => void;
  children: ComponentChildren;
}): JSX.Element {
  const heading = useRef<HTMLHeadingElement>(null);
  const close = useRef(onClose);
  close.current = onClose;
  useEffect(() => {
    const before = document.activeElement;
    heading.current?.focus();
    const stop = onEscape(() => close.current());
    return () => {
      stop();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <div class="panel" role="dialog" aria-labelledby="panel-title">
      <header class="panel-head">
        <div class="panel-titles">
          <h2 id="panel-title" ref={heading} tabIndex={-1}>
            {title}
          </h2>
          {subtitle && <p class="muted">{subtitle}</p>}
        </div>
        {badge}
        <button type="button" class="icon-button" aria-label="Close details" title="Close (Esc)" onClick={onClose}>
          <Icon name="close" />
        </button>
      </header>
      {actions && <div class="panel-actions">{actions}</div>}
      <div class="panel-body">{children}</div>
    </div>
  );
}

/** A section of the details. */
export function Section({
  title,
  aside,
  children,
}: {
  title: string;
  aside?: ComponentChildren;
  children: ComponentChildren;
}): JSX.Element {
  return (
    <section class="section">
      <h3>
        {title}
        {aside !== undefined && <span class="section-aside">{aside}</span>}
      </h3>
      {children}
    </section>
  );
}

/** Names and values in two columns; entries without a value are omitted. */
export function Facts({ of }: { of: [string, ComponentChildren][] }): JSX.Element {
  return (
    <dl class="facts">
      {of.map(([name, value]) =>
        value === undefined || value === null || value === "" || value === false ? null : (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ),
      )}
    </dl>
  );
}
