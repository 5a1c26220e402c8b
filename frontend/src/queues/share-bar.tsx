/** A bar of a queue's share: used, requested, deserved, fair share, limit. */
import type { JSX } from "preact";
import { amount } from "../lib/format";
import type { Share } from "./tree";

/** `scale` is the amount that fills the bar. */
export function ShareBar({ share, scale, resource }: { share: Share; scale: number; resource: string }): JSX.Element {
  const at = (value: number) => `${Math.min(100, (value / scale) * 100)}%`;
  const used = share.used ?? 0;
  const over = share.deserved !== undefined && used > share.deserved;
  const text = describeShare(share, resource);
  return (
    <span class="share" role="img" aria-label={text} title={text}>
      {share.limit !== undefined && <span class="share-limit" style={{ width: at(share.limit) }} />}
      {share.requested > used && <span class="share-requested" style={{ width: at(share.requested) }} />}
      <span class={over ? "share-used over" : "share-used"} style={{ width: at(used) }} />
      {share.fairShare ? <span class="share-mark fair" style={{ left: at(share.fairShare) }} /> : null}
      {share.deserved !== undefined && <span class="share-mark deserved" style={{ left: at(share.deserved) }} />}
      {share.limit !== undefined && <span class="share-mark limit" style={{ left: at(share.limit) }} />}
    </span>
  );
}

/** The legend of the bars. */
export function Legend(): JSX.Element {
  return (
    <p class="legend">
      <span>
        <i class="key used" />
        used
      </span>
      <span>
        <i class="key over" />
        used above deserved
      </span>
      <span>
        <i class="key requested" />
        requested, pending
      </span>
      <span>
        <i class="key deserved" />
        deserved
      </span>
      <span>
        <i class="key fair" />
        fair share now
      </span>
      <span>
        <i class="key limit" />
        limit
      </span>
    </p>
  );
}

function describeShare(share: Share, resource: string): string {
  const parts = share.used === undefined ? ["usage unknown"] : [`used ${amount(resource, share.used)}`];
  if (share.requested > (share.used ?? 0)) parts.push(`requests ${amount(resource, share.requested)}`);
  if (share.deserved !== undefined) parts.push(`deserved ${amount(resource, share.deserved)}`);
  if (share.fairShare !== undefined) parts.push(`fair share ${amount(resource, share.fairShare)}`);
  parts.push(share.limit === undefined ? "no limit" : `limit ${amount(resource, share.limit)}`);
  return parts.join(", ");
}
