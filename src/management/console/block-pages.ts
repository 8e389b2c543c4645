// The forms that block apps. The first shows what the block would disconnect, and asks before it is made.
import { seeOther } from '../../http/see-other.ts';
import { OPERATIONS } from '../api/operations.ts';
import { parseInput } from '../parse-input.ts';
import { clientRuleHandlers, previewBlock } from '../client-rules.ts';
import { type BlockBody, blockBody, ruleList } from '../resources/client-rule.ts';
import { CONSOLE_PATH, returnPath } from './address.ts';
import type { ConsoleContext, ConsoleRoutes } from './context.ts';
import { afterAction } from './done.ts';
import { type Form, optionalValue } from './forms.ts';
import { layout } from './layout.ts';
import { showList } from './lists.ts';

const RULES = `${CONSOLE_PATH}/rules`;
const MAX_NAMES = 10;

export function blockPages({ form }: ConsoleRoutes): void {
  form('/rules/block', OPERATIONS.blockClients.role, block);
}

async function block(context: ConsoleContext, form: Form): Promise<void> {
  const { management, ctx } = context;
  const subject = { host: optionalValue(form, 'host'), name: optionalValue(form, 'name') };
  const from = returnPath(form);
  if (!from && !blockBody.safeParse(subject).success) {
    const { host = '', name = '' } = form;
    return showList(context, ruleList, { block: { host, name }, problem: 'block' });
  }
  const body = parseInput(blockBody, subject);
  if (form.confirm !== 'yes') return confirm(context, body, from);
  await clientRuleHandlers.blockClients(management, { body });
  seeOther(ctx, from ? afterAction(from, 'blocked') : afterAction(RULES, 'rule-created'));
}

/** Changes nothing. `from` is the page of the app that is blocked, and is shown again afterwards. */
async function confirm(
  context: ConsoleContext,
  body: BlockBody,
  from: string | undefined,
): Promise<void> {
  const { management, ctx } = context;
  const { clients, connections, names, isAll } = await previewBlock(management, body);
  await management.services.pages.render(ctx, 'console/block', {
    console: layout(context, from?.startsWith(`${CONSOLE_PATH}/clients/`) ? 'clients' : 'rules'),
    action: `${RULES}/block`,
    subject:
      'host' in body ? { field: 'host', value: body.host } : { field: 'name', value: body.name },
    clients,
    connections,
    isAll,
    names: names.slice(0, MAX_NAMES).map(({ name, connections: count }) => ({
      name,
      connections: count,
      href: `${CONSOLE_PATH}/clients?${new URLSearchParams({ q: name })}`,
    })),
    moreNames: Math.max(0, names.length - MAX_NAMES),
    returnTo: from,
    back: from ?? RULES,
  });
}
