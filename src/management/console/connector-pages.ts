// The console's pages of connectors: the list with a form to create one, and each with its link, how to use it, and its end.
import type { NewConnector } from '../../connectors/connectors.ts';
import type { ViewValues } from '../../http/pages.ts';
import { seeOther } from '../../http/see-other.ts';
import { LEVELS } from '../../permission-level.ts';
import {
  createConnector,
  deleteConnector,
  listConnectors,
  revokeConnector,
  showConnector,
} from '../connectors.ts';
import type { ConnectorDocument } from '../documents.ts';
import { connectorsQuery, newConnector } from '../input.ts';
import { instructionsFor } from '../instructions.ts';
import { CONSOLE, type Sections, type Visit } from './visit.ts';
import { createOnce, entered, type Form, isFirst } from './forms.ts';
import { type Frame, frameOf, secondsOf } from './frame.ts';
import { nextLink, placeIn } from './place.ts';

type Item = ViewValues['console/connectors']['items'][number];

const PATH = `${CONSOLE}/connectors`;
const PAGE = 100;

export function connectorPages({ page, form }: Sections): void {
  page('/connectors', (visit) => showList(visit));
  form('/connectors', create);
  page('/connectors/:id', showOne);
  form('/connectors/:id/revoke', async ({ options, ctx }) => {
    const { id } = await revokeConnector(options, String(ctx.params.id));
    seeOther(ctx, `${PATH}/${id}?done=revoked`);
  });
  form('/connectors/:id/delete', async ({ options, ctx }) => {
    await deleteConnector(options, String(ctx.params.id));
    seeOther(ctx, `${PATH}?done=deleted`);
  });
}

type Problem = NonNullable<Frame['problem']>;

async function showList(visit: Visit, wrong?: { problem: Problem; form: Form }): Promise<void> {
  const { options, ctx } = visit;
  const after = placeIn(ctx, connectorsQuery);
  const { items, next } = await listConnectors(options, { limit: PAGE, after });
  const entries = wrong?.form ?? {};
  const { name = '', level = 'analytics', suggestedLevel = '', maxUses = '', days = '' } = entries;
  const values = {
    console: frameOf(visit, 'connectors', wrong?.problem),
    items: items.map(itemOf),
    ...nextLink(PATH, next),
    form: {
      action: PATH,
      once: createOnce(),
      levels: [...LEVELS],
      name,
      level,
      suggestedLevel,
      maxUses,
      days,
    },
  };
  await options.pages.render(ctx, 'console/connectors', values, wrong ? 400 : 200);
}

async function create(visit: Visit, form: Form): Promise<void> {
  const { options, ctx } = visit;
  const wanted = wantedIn(form, options.now());
  if ('problem' in wanted) return showList(visit, { ...wanted, form });
  if (!(await isFirst(options.store, form))) return seeOther(ctx, PATH);
  const { id } = await createConnector(options, wanted);
  seeOther(ctx, `${PATH}/${id}?done=created`);
}

const PROBLEMS: Record<string, Problem> = {
  name: 'name',
  suggestedLevel: 'suggested',
  maxUses: 'uses',
  expiresIn: 'days',
};

/** The same rules as for the API. */
function wantedIn(form: Form, now: number): NewConnector | { problem: Problem } {
  const [maxUses, days] = [entered(form, 'maxUses'), entered(form, 'days')];
  const suggestedLevel = entered(form, 'suggestedLevel');
  const parsed = newConnector(now).safeParse({
    name: form.name,
    level: form.level,
    ...(suggestedLevel === undefined ? {} : { suggestedLevel }),
    ...(maxUses === undefined ? {} : { maxUses: Number(maxUses) }),
    ...(days === undefined ? {} : { expiresIn: `${days}d` }),
  });
  if (parsed.success) return parsed.data;
  const [where] = parsed.error.issues[0]?.path ?? [];
  return { problem: PROBLEMS[String(where)] ?? 'other' };
}

async function showOne(visit: Visit): Promise<void> {
  const { options, ctx } = visit;
  const connector = await showConnector(options, String(ctx.params.id));
  const { id, link, name, state } = connector;
  const isOver = state === 'revoked' || state === 'expired';
  await options.pages.render(ctx, 'console/connector', {
    console: frameOf(visit, 'connectors'),
    connector: { ...itemOf(connector), link },
    instructions: isOver ? [] : instructionsFor(link, name),
    account: `${options.authUrl}/account`,
    ...(isOver ? { delete: `${PATH}/${id}/delete` } : { revoke: `${PATH}/${id}/revoke` }),
  });
}

function itemOf(connector: ConnectorDocument): Item {
  const { id, name, level, suggestedLevel, state, createdAt, expiresAt, maxUses, uses } = connector;
  return {
    id,
    name,
    level,
    ...(suggestedLevel === undefined ? {} : { suggestedLevel }),
    state,
    href: `${PATH}/${id}`,
    createdAt: secondsOf(createdAt),
    uses,
    ...(maxUses === undefined ? {} : { left: Math.max(0, maxUses - uses), maxUses }),
    ...(expiresAt === undefined ? {} : { expiresAt: secondsOf(expiresAt) }),
  };
}
