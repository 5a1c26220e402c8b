/** The tree of queues with their shares, and the gangs and pods pending in them. */
import type { JSX } from "preact";
import { queueHref } from "../app/links";
import { navigate, pathBelow, useQuery, withQuery } from "../app/router";
import { PageCharts } from "../charts/charts";
import { chartsOf } from "../data/description";
import { tables } from "../data/store";
import { amount, number, pluralize, resourceTitle } from "../lib/format";
import { NO_DEFAULT_QUEUE, QueueDetails } from "../queues/details";
import { isPendingKnown, PendingList, pendingIn } from "../queues/pending-list";
import { Legend, ShareBar } from "../queues/share-bar";
import { barScale, GPU, problemTone, type QueueNode, queueShare, resourcesOf, treeOf } from "../queues/tree";
import { Empty, FilterSelect, SearchBox } from "../ui/controls";
import { PageFrame } from "../ui/page";
import { Mark } from "../ui/state";
import { areLoaded, NotFoundNotice } from "../ui/table-notices";

const TABLES = ["queues", "gangs", "pods"] as const;

/** The tree; the details of a queue are at /queues/NAME. */
export default function Queues(): JSX.Element {
  const [resource] = useQuery("resource", GPU);
  const [q] = useQuery("q");
  const [selected] = pathBelow("/queues");
  const queues = [...tables.queues.all.values()];
  const nodes = treeOf(queues).filter(({ queue }) => queue.id.toLowerCase().includes(q.toLowerCase()));
  const pending = pendingIn();
  const matching = pending.filter(
    (each) => !q || `${each.id} ${each.queue} ${each.why}`.toLowerCase().includes(q.toLowerCase()),
  );
  return (
    <PageFrame
      title="Queues"
      tables={TABLES}
      summary={
        areLoaded(["queues"]) &&
        `${pluralize(queues.length, "queue")}${isPendingKnown() ? `, ${number(pending.length)} pending` : ""}`
      }
      filters={
        <>
          <SearchBox label="Filter queues" />
          <FilterSelect
            label="Resource"
            name="resource"
            options={resourcesOf(queues).map((value) => ({ value, title: resourceTitle(value) }))}
          />
        </>
      }
      panel={selected && <QueueDetails key={selected} name={selected} onClose={() => navigate(withQuery("/queues"))} />}
    >
      <PageCharts charts={chartsOf("/queues")} folded={selected !== undefined} />
      {queues.length === 0 ? (
        <NoQueues />
      ) : (
        <Tree nodes={nodes} resource={resource} scale={barScale(queues, resource)} selected={selected} />
      )}
      <section class="below-tree" aria-labelledby="pending-title">
        <h3 id="pending-title">
          Pending {isPendingKnown() && <span class="section-aside">{number(matching.length)}</span>}
        </h3>
        <PendingList pending={matching} withQueue />
      </section>
    </PageFrame>
  );
}

function NoQueues(): JSX.Element {
  if (!areLoaded(["queues"])) return <NotFoundNotice of={["queues"]} what="Queues" />;
  return <Empty title="No queues yet">{NO_DEFAULT_QUEUE}</Empty>;
}

/** Arrow keys move the focus between the links of the queues. */
function moveFocus(event: KeyboardEvent): void {
  const links = [...(event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>("tbody a")];
  const at = links.indexOf(document.activeElement as HTMLElement);
  const target = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: links.length - 1 }[event.key];
  if (target === undefined) return;
  event.preventDefault();
  links[Math.min(links.length - 1, Math.max(0, target))]?.focus();
}

function Tree({
  nodes,
  resource,
  scale,
  selected,
}: {
  nodes: QueueNode[];
  resource: string;
  scale: number;
  selected: string | undefined;
}): JSX.Element {
  return (
    <div class="queues">
      <Legend />
      <table class="queue-tree" tabIndex={-1} data-arrows onKeyDown={moveFocus}>
        <thead>
          <tr>
            <th>Queue</th>
            <th class="share-column">{resourceTitle(resource)}</th>
            <th class="num">Used</th>
            <th class="num wide">Deserved</th>
            <th class="num wide">Fair share</th>
            <th class="num wide">Limit</th>
            <th class="num">Pending</th>
          </tr>
        </thead>
        <tbody>
          {nodes.map(({ queue, depth }) => {
            const share = queueShare(queue, resource);
            const cell = (value: number | undefined) =>
              value === undefined ? <span class="faint">–</span> : amount(resource, value);
            return (
              <tr
                key={queue.id}
                aria-current={queue.id === selected ? "true" : undefined}
                onClick={() => navigate(withQuery(queueHref(queue.id)))}
              >
                <td>
                  <span class="branch" style={{ paddingLeft: `${depth * 18}px` }}>
                    {depth > 0 && <span class="twig" aria-hidden="true" />}
                    <a class="strong ellipsis" href={withQuery(queueHref(queue.id))}>
                      {queue.id}
                    </a>
                    {!queue.ready && (
                      <span title={queue.message}>
                        <Mark tone={problemTone(queue)} />
                        <span class="visually-hidden">not ready</span>
                      </span>
                    )}
                  </span>
                  {!queue.ready && queue.message && (
                    <p class={`tone-${problemTone(queue)} queue-message`}>{queue.message}</p>
                  )}
                </td>
                <td class="share-column">
                  <ShareBar share={share} scale={scale} resource={resource} />
                </td>
                <td class="num">{cell(share.used)}</td>
                <td class="num wide">{cell(share.deserved)}</td>
                <td class="num wide">{cell(share.fairShare)}</td>
                <td class="num wide">{cell(share.limit)}</td>
                <td class="num">{queue.pendingGangs ?? <span class="faint">–</span>}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
      {tables.queues.all.size === 1 && tables.queues.get("default") && (
        <p class="queue-note muted">
          All workloads use the default queue. A Queue gives a team its fair share and a limit.
        </p>
      )}
    </div>
  );
}
