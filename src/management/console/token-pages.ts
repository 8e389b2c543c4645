import { tokenExample } from '../../connectors/app-instructions.ts';
import type { ViewValues } from '../../pages/pages.ts';
import { includesRole } from '../../settings/management-roles.ts';
import { seeOther } from '../../http/see-other.ts';
import { mintedAudience, type NewMintedToken } from '../../minted-tokens/minted-tokens.ts';
import { levelIds, lowestLevel, recordedLevels } from '../../permission-levels.ts';
import { type ManagementContext, requireRole } from '../context.ts';
import type { MintedTokenResource } from '../api/resources.ts';
import { newTokenBody, TOKEN_STATES, tokensQuery } from '../api/requests.ts';
import { ROUTES } from '../api/routes.ts';
import { listTokens, mintToken, revokeToken } from '../minted-tokens.ts';
import { upstreamChoice } from '../upstreams.ts';
import { CONSOLE_PATH } from './address.ts';
import type { ConsoleContext, ConsoleRoutes } from './context.ts';
import { doneQuery } from './done.ts';
import { claimIdempotencyKey, createIdempotencyKey, type Form, optionalValue } from './forms.ts';
import {
  codeField,
  cursorIn,
  dateFields,
  type FormProblem,
  layout,
  levelField,
  listValues,
  searchIn,
  stateFilter,
  textField,
  translatedField,
} from './layout.ts';

type Values = ViewValues['console/tokens'];

const PATH = `${CONSOLE_PATH}/tokens`;
const PAGE_ITEMS = 50;

export function tokenPages({ page, form }: ConsoleRoutes): void {
  page('/tokens', (context) => show(context));
  page('/tokens/new', (context) => showForm(context));
  form('/tokens', ROUTES.mintToken.role, mint);
  form('/tokens/revoke', ROUTES.revokeToken.role, async ({ management, ctx }, { id = '' }) => {
    await revokeToken(management, id);
    seeOther(ctx, PATH + doneQuery('token-revoked'));
  });
}

async function show(context: ConsoleContext, minted?: Values['minted']): Promise<void> {
  const { management, ctx } = context;
  const after = cursorIn(ctx, tokensQuery);
  const q = searchIn(ctx, tokensQuery);
  const { filter, state } = stateFilter(ctx, TOKEN_STATES);
  const found = await listTokens(management, { limit: PAGE_ITEMS, after, q, state });
  const mayRevoke = includesRole(management.role, ROUTES.revokeToken.role);
  const mayMint = includesRole(management.role, ROUTES.mintToken.role);
  await management.services.pages.render(ctx, 'console/tokens', {
    console: layout(context, 'tokens'),
    items: found.items.map((item) => itemOf(item, mayRevoke)),
    ...listValues(ctx, PATH, found, { q, filters: [filter] }),
    ...(mayMint ? { create: `${PATH}/new` } : {}),
    ...(minted ? { minted } : {}),
  });
}

/** `rejected` is a form with a problem, whose values are shown again. */
async function showForm(
  context: ConsoleContext,
  rejected?: { problem: FormProblem; form: Form },
): Promise<void> {
  const { management, ctx } = context;
  requireRole(management, ROUTES.mintToken.role);
  const { levels } = management.settings;
  const { name = '', level = lowestLevel(levels), days = '', upstream = '' } = rejected?.form ?? {};
  const form = {
    action: PATH,
    idempotencyKey: createIdempotencyKey(),
    levels: levelIds(levels),
    recorded: recordedLevels(levels),
    name,
    level,
    days,
    upstreams: upstreamChoice(management.settings),
    upstream,
  };
  const values = {
    console: layout(context, 'tokens', rejected?.problem),
    form,
  };
  const status = rejected ? 400 : 200;
  await management.services.pages.render(ctx, 'console/new-token', values, status);
}

/** Responds with the page instead of a redirect: the token is not stored, so it cannot be shown later. */
async function mint(context: ConsoleContext, form: Form): Promise<void> {
  const { management, ctx } = context;
  const parsed = parseForm(management, form);
  if ('problem' in parsed) return showForm(context, { ...parsed, form });
  if (!(await claimIdempotencyKey(management.services.store, form))) return seeOther(ctx, PATH);
  const { name, token } = await mintToken(management, parsed);
  const url = mintedAudience(management.settings.resourceUrl);
  await show(context, { name, token, url, example: tokenExample(url, token) });
}

/** Applies the same rules as the API. */
function parseForm(
  { settings, services }: ManagementContext,
  form: Form,
): NewMintedToken | { problem: FormProblem } {
  const days = optionalValue(form, 'days');
  const { name, level } = form;
  const upstream = optionalValue(form, 'upstream');
  const server = upstream === undefined ? {} : { upstream };
  const expiry = days === undefined ? {} : { expiresIn: `${days}d` };
  const parsed = newTokenBody(services.now(), settings.levels).safeParse({
    name,
    level,
    ...server,
    ...expiry,
  });
  if (parsed.success) return parsed.data;
  const [member] = parsed.error.issues[0]?.path ?? [];
  if (member === 'name') return { problem: 'name' };
  return { problem: member === 'expiresIn' ? 'days' : 'other' };
}

const NEVER_USED = translatedField('lastUsed', 'neverUsed', 'console.fields');

function itemOf(token: MintedTokenResource, mayRevoke: boolean): Values['items'][number] {
  const { id, name, lastFour, keyReplaced } = token;
  return {
    title: name,
    state: keyReplaced ? 'keyReplaced' : 'active',
    isOk: !keyReplaced,
    facts: [
      levelField(token.level),
      ...(token.upstream === undefined ? [] : [codeField('upstream', token.upstream)]),
      ...(token.lastUsedAt === undefined ? [NEVER_USED] : dateFields('lastUsed', token.lastUsedAt)),
      ...dateFields('expires', token.expiresAt),
    ],
    fields: [
      ...dateFields('created', token.createdAt),
      textField('endsIn', `…${lastFour}`),
      codeField('id', id),
    ],
    actions: mayRevoke ? [{ name: 'revokeToken', action: `${PATH}/revoke`, id }] : [],
  };
}
