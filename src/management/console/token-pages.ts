// The console's page of minted tokens: the list with a form to mint one, which is shown in the answer to that form and never again.
import type { ViewValues } from '../../http/pages.ts';
import { seeOther } from '../../http/see-other.ts';
import { mintedAudience, type NewMintedToken } from '../../minted-tokens/minted-tokens.ts';
import { LEVELS } from '../../permission-level.ts';
import type { MintedTokenResource } from '../api/resources.ts';
import { newTokenBody, tokensQuery } from '../api/requests.ts';
import { tokenExample } from '../instructions.ts';
import { listTokens, mintToken, revokeToken } from '../minted-tokens.ts';
import { code, level, text, time } from './facts.ts';
import { createOnce, entered, type Form, isFirst } from './forms.ts';
import { type Frame, frameOf } from './frame.ts';
import { nextLink, placeIn } from './place.ts';
import { CONSOLE, type Sections, type Visit } from './visit.ts';

type Values = ViewValues['console/tokens'];
type Problem = NonNullable<Frame['problem']>;

const PATH = `${CONSOLE}/tokens`;
const PAGE = 50;

export function tokenPages({ page, form }: Sections): void {
  page('/tokens', (visit) => show(visit));
  form('/tokens', mint);
  form('/tokens/revoke', async ({ options, ctx }, { id = '' }) => {
    await revokeToken(options, id);
    seeOther(ctx, `${PATH}?done=ended`);
  });
}

type Shown = { problem?: Problem; form?: Form; minted?: Values['minted'] };

async function show(visit: Visit, { problem, form = {}, minted }: Shown = {}): Promise<void> {
  const { options, ctx } = visit;
  const after = placeIn(ctx, tokensQuery);
  const { items, next } = await listTokens(options, { limit: PAGE, after });
  const { name = '', level: chosen = 'analytics', days = '' } = form;
  const values = {
    console: frameOf(visit, 'tokens', problem),
    items: items.map(itemOf),
    ...nextLink(PATH, next),
    form: { action: PATH, once: createOnce(), levels: [...LEVELS], name, level: chosen, days },
    ...(minted ? { minted } : {}),
  };
  await options.pages.render(ctx, 'console/tokens', values, problem ? 400 : 200);
}

/** The answer is the page itself and no redirect: the token is kept nowhere to be shown later. */
async function mint(visit: Visit, form: Form): Promise<void> {
  const { options, ctx } = visit;
  const wanted = wantedIn(form, options.now());
  if ('problem' in wanted) return show(visit, { ...wanted, form });
  if (!(await isFirst(options.store, form))) return seeOther(ctx, PATH);
  const { name, token } = await mintToken(options, wanted);
  const url = mintedAudience(options.resourceUrl);
  await show(visit, { minted: { name, token, url, example: tokenExample(url, token) } });
}

/** The same rules as for the API. */
function wantedIn(form: Form, now: number): NewMintedToken | { problem: Problem } {
  const days = entered(form, 'days');
  const { name, level: wanted } = form;
  const expiry = days === undefined ? {} : { expiresIn: `${days}d` };
  const parsed = newTokenBody(now).safeParse({ name, level: wanted, ...expiry });
  if (parsed.success) return parsed.data;
  const [where] = parsed.error.issues[0]?.path ?? [];
  if (where === 'name') return { problem: 'name' };
  return { problem: where === 'expiresIn' ? 'days' : 'other' };
}

function itemOf(token: MintedTokenResource): Values['items'][number] {
  const { id, name, lastFour, keyReplaced } = token;
  return {
    title: name,
    state: keyReplaced ? 'keyReplaced' : 'active',
    isWell: !keyReplaced,
    facts: [
      level(token.level),
      ...time('created', token.createdAt),
      ...time('expires', token.expiresAt),
      ...time('lastUsed', token.lastUsedAt),
      text('endsIn', `…${lastFour}`),
      code('id', id),
    ],
    actions: [{ name: 'revokeToken', action: `${PATH}/revoke`, id }],
  };
}
