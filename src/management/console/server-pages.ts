import type { ViewValues } from '../../pages/pages.ts';
import { epochSeconds } from '../resources/fields.ts';
import { seeOther } from '../../http/see-other.ts';
import { includesRole } from '../../settings/management-roles.ts';
import { parseInput } from '../parse-input.ts';
import type { ManagementContext } from '../context.ts';
import { approveBody, type ToolReview } from '../resources/tool-review.ts';
import {
  approvalOfAll,
  levelSource,
  type Upstream,
  upstreamOperations,
} from '../resources/upstream.ts';
import { upstreamHandlers } from '../upstreams.ts';
import type { ConsoleContext, ConsoleRoutes } from './context.ts';
import { CONSOLE_PATH, reviewPath } from './address.ts';
import { afterAction } from './done.ts';
import { layout } from './layout.ts';
import { reachOfTool } from './tool-access-pages.ts';

type Server = ViewValues['console/servers']['servers'][number];

export function serverPages({ page, form }: ConsoleRoutes): void {
  page('/servers', (context) => showServers(context));

  const { role } = upstreamOperations.connectUpstream;
  form('/servers/:id/connect', role, async (context) => {
    const { id } = context.ctx.params;
    const { url } = await upstreamHandlers.connectUpstream(context.management, { id });
    // A link, because the browser follows no redirect of a form to another origin.
    await showServers(context, { id, url });
  });

  page('/servers/:id/review', async (context) => {
    const { management, ctx } = context;
    const upstream = await upstreamHandlers.showUpstream(management, { id: ctx.params.id });
    const review = await upstreamHandlers.reviewUpstream(management, { id: upstream.id });
    await management.services.pages.render(ctx, 'console/review', {
      console: layout(context, 'servers'),
      server: upstream.name,
      isHeld: isHeld(management, upstream.id),
      mayApprove: includesRole(management.role, upstreamOperations.approveUpstream.role),
      ...reviewValues(review, serverOf(management, upstream).tools),
      action: reviewPath(upstream.id),
      back: `${CONSOLE_PATH}/servers`,
    });
  });

  form('/servers/:id/review', upstreamOperations.approveUpstream.role, async (context, entries) => {
    const { management, ctx } = context;
    const body = parseInput(approveBody, parsed(entries.approval));
    await upstreamHandlers.approveUpstream(management, { id: ctx.params.id, body });
    seeOther(ctx, afterAction(reviewPath(ctx.params.id), 'tools-approved'));
  });
}

/** `connecting`: where an account of the operator can be connected now. */
async function showServers(
  context: ConsoleContext,
  connecting?: { id: string; url: string },
): Promise<void> {
  const { management, ctx } = context;
  const { items } = await upstreamHandlers.listUpstreams(management, {});
  await management.services.pages.render(ctx, 'console/servers', {
    console: layout(context, 'servers'),
    servers: items.map((upstream) => {
      const server = serverOf(management, upstream);
      const { credential } = server;
      return credential && connecting?.id === upstream.id
        ? { ...server, credential: { ...credential, address: connecting.url } }
        : server;
    }),
  });
}

function isHeld({ settings }: ManagementContext, id: string): boolean {
  return settings.upstreams.find((each) => each.id === id)?.toolChanges === 'hold';
}

/** Undefined if it is not JSON. */
function parsed(text = ''): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function reviewValues(
  review: ToolReview,
  known: Server['tools'],
): Pick<ViewValues['console/review'], 'changes' | 'more' | 'all'> {
  const { tools, instructions, more = 0 } = review;
  const changes = tools.map(({ name, change, digest, since, severity, differences, ...marks }) => ({
    name,
    ...(since === undefined ? {} : { since: epochSeconds(since) }),
    ...(change === 'removed' ? {} : { tool: known.find((tool) => tool.name === name) }),
    change,
    isAlert: severity === 'alert',
    similarTo: marks.similarTo ?? [],
    isTwice: marks.isTwice ?? false,
    gains: marks.gains,
    differences,
    approval: JSON.stringify({ tools: [{ name, digest }] }),
  }));
  const said = instructions && {
    change: 'changed' as const,
    isAlert: instructions.severity === 'alert',
    similarTo: [],
    isTwice: false,
    differences: [
      {
        path: '',
        after: instructions.after,
        ...(instructions.before === undefined ? {} : { before: instructions.before }),
      },
    ],
    approval: JSON.stringify({ instructions: instructions.digest }),
  };
  const all = [...(said ? [said] : []), ...changes];
  return {
    changes: all,
    more,
    ...(all.length > 1 ? { all: JSON.stringify(approvalOfAll(review)) } : {}),
  };
}

function credentialOf(
  { role }: ManagementContext,
  { id, credential }: Upstream,
): Pick<Server, 'credential'> {
  if (!credential) return {};
  const { kind, redirectUri, readSince, isNeeded = false } = credential;
  const mayConnect =
    kind !== 'exchange' &&
    (isNeeded || readSince !== undefined) &&
    includesRole(role, upstreamOperations.connectUpstream.role);
  return {
    credential: {
      kind,
      isNeeded,
      ...(redirectUri === undefined ? {} : { redirectUri }),
      ...(readSince === undefined ? {} : { readSince: epochSeconds(readSince) }),
      ...(mayConnect
        ? { connect: `${CONSOLE_PATH}/servers/${encodeURIComponent(id)}/connect` }
        : {}),
    },
  };
}

function serverOf(management: ManagementContext, upstream: Upstream): Server {
  const { id, name, url, paused, seenAt, triedAt, error, levels, missingTools, tools } = upstream;
  return {
    id,
    name,
    url,
    state: paused ? 'paused' : error ? 'fails' : triedAt ? 'answers' : 'untried',
    seenAt: seenAt === undefined ? undefined : epochSeconds(seenAt),
    error,
    levels,
    missing: missingTools,
    empty: upstream.emptyConnectors.map(({ name: called }) => called),
    tools: tools.map((tool) => {
      const { name: called, title, level, held, schemaFault } = tool;
      const { isMissed = false, isNoObject = false } = tool;
      const from = levelSource(upstream, tool);
      return {
        name: called,
        title,
        level,
        held,
        isMissed,
        isNoObject,
        schemaFault,
        from,
        reach: reachOfTool(id, called),
      };
    }),
    review: reviewPath(id),
    changes: upstream.changes ?? 0,
    ...credentialOf(management, upstream),
  };
}
