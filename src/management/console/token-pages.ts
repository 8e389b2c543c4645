import { tokenExample } from '../../links/app-instructions.ts';
import { seeOther } from '../../http/see-other.ts';
import { mintedAudience } from '../../links/minted-tokens.ts';
import { OPERATIONS } from '../api/operations.ts';
import { requireRole } from '../context.ts';
import { tokenHandlers } from '../minted-tokens.ts';
import { tokenForm, tokenList } from '../resources/token.ts';
import { CONSOLE_PATH } from './address.ts';
import type { ConsoleContext, ConsoleRoutes } from './context.ts';
import { formValues, parseForm } from './create-form.ts';
import { claimIdempotencyKey, type Form } from './forms.ts';
import { layout } from './layout.ts';
import { showList } from './lists.ts';

const PATH = `${CONSOLE_PATH}/tokens`;
const { role: ROLE } = OPERATIONS.mintToken;

export function tokenPages({ page, form }: ConsoleRoutes): void {
  page('/tokens/new', (context) => showForm(context));
  form('/tokens', ROLE, mint);
}

/** With a `problem`, the entries are shown again. */
async function showForm(
  context: ConsoleContext,
  entries: Form = {},
  problem?: string,
): Promise<void> {
  const { management, ctx } = context;
  requireRole(management, ROLE);
  const values = {
    console: layout(context, 'tokens', problem),
    form: formValues(management, PATH, tokenForm, entries),
  };
  const status = problem ? 400 : 200;
  await management.services.pages.render(ctx, 'console/new-token', values, status);
}

/** Responds with the page instead of a redirect: the token is not stored, so it cannot be shown later. */
async function mint(context: ConsoleContext, form: Form): Promise<void> {
  const { management, ctx } = context;
  const parsed = parseForm(management, 'mintToken', tokenForm, form);
  if ('problem' in parsed) return showForm(context, form, parsed.problem);
  if (!(await claimIdempotencyKey(management.services.store, form))) return seeOther(ctx, PATH);
  const { name, token } = await tokenHandlers.mintToken(management, parsed);
  const url = mintedAudience(management.settings.resourceUrl);
  const minted = { name, token, url, example: tokenExample(url, token) };
  await showList(context, tokenList, { minted });
}
