/** The share of a queue, drawn: used, asked for, deserved, fair share, limit. */
import type { JSX } from "preact";
import { amount } from "../format";
import type { Share } from "./tree";

/** `scale` is the amount that fills the bar. */
export function ShareBar({ share, scale, resource }: { share: Share; scale: number; resource: string }): JSX.Element {
  const at = (value: number) => `${Math.min(100, (value / scale) * 100)}%`;
  const over = share.deserved !== undefined && share.used > share.deserved;
  const words = inWords(share, resource);
  return (
    <span class="share" role="img" aria-label={words} title={words}>
      {share.limit !== undefined && <span class="share-room" style={{ width: at(share.limit) }} />}
      {share.requested > share.used && <span class="share-asked" style={{ width: at(share.requested) }} />}
      <span class={over ? "share-used over" : "share-used"} style={{ width: at(share.used) }} />
      {share.fairShare ? <span class="share-mark fair" style={{ left: at(share.fairShare) }} /> : null}
      {share.deserved !== undefined && <span class="share-mark deserved" style={{ left: at(share.deserved) }} />}
      {share.limit !== undefined && <span class="share-mark limit" style={{ left: at(share.limit) }} />}
    </span>
  );
}

/** What the parts of a bar mean. */
export function Legend(): JSX.Element {
  return (
    <p class="legend">
      <span><i class="key used" />used</span>
      <span><i class="key over" />used beyond deserved</span>
      <span><i class="key asked" />asked for, waiting</span>
      <span><i class="key deserved" />deserved</span>
      <span><i class="key fair" />fair share now</span>
      <span><i class="key limit" />limit</span>
    </p>
  );
}

function inWords(share: Share, resource: string): string {
  const parts = [`uses ${amount(resource, share.used)}`];
  if (share.requested > share.used) parts.push(`asks for ${amount(resource, share.requested)}`);
  if (share.deserved !== undefined) parts.push(`deserves ${amount(resource, share.deserved)}`);
  if (share.fairShare !== undefined) parts.push(`fair share ${amount(resource, share.fairShare)}`);
  parts.push(share.limit === undefined ? "no limit" : `limit ${amount(resource, share.limit)}`);
  return parts.join(", ");
}
