// The settings of the processes, read again without a restart.
import * as z from 'zod';
import { affectedMembers, affectedText, lossText, toolLossMembers } from './affected.ts';
import { plain } from '../commands/terminal.ts';
import type { Operation } from './resource.ts';
import * as schemas from './schemas.ts';

const names = (what: string) => z.array(z.string()).describe(what);

const affectedTokenSchema = z
  .strictObject({
    id: z.string(),
    name: z.string(),
    reason: z
      .enum(['unconfigured', 'paused'])
      .optional()
      .describe('Why it would stop: its level or MCP server is not in the settings, or is paused.'),
    ...toolLossMembers,
  })
  .meta({ id: 'AffectedToken' });

export type AffectedToken = z.output<typeof affectedTokenSchema>;

export const reloadSchema = z
  .strictObject({
    changed: names('The settings that changed, or would change. A replaced secret counts as one.'),
    notReloadable: names(
      'Variables with secrets, which a running process cannot read again: restart it after a change.',
    ),
    unanswered: names(
      'Processes that did not answer within 10 seconds. Each fails `/readyz` until it has followed.',
    ),
    ...affectedMembers,
    affectedTokens: z
      .array(affectedTokenSchema)
      .optional()
      .describe('Of a dry run: the minted tokens that would stop or lose tools.'),
  })
  .meta({ id: 'Reload' });

export type Reload = z.output<typeof reloadSchema>;

export const settingsOperations = {
  reloadSettings: {
    method: 'post',
    path: '/settings/reload',
    role: 'administrator',
    summary:
      'Reads settings and secrets again, in every process. If one process cannot follow, none changes.',
    body: () =>
      z.strictObject(
        {
          dryRun: z
            .boolean('true or false')
            .optional()
            .describe('Changes nothing, and says what would change.'),
        },
        schemas.OBJECT,
      ),
    isBodyOptional: true,
    response: reloadSchema,
    errors: {
      409: 'A reload is in progress, a setting needs a restart, or `processes` see different contents of a secret.',
    },
  },
} as const satisfies Record<string, Operation>;

/** What the command prints. */
export function reloadText(reload: Reload, isDryRun: boolean): string {
  const { changed, notReloadable, unanswered, affected, affectedTokens = [] } = reload;
  const list = (items: readonly string[]) => items.map((item) => `  ${item}`).join('\n');
  const none = isDryRun ? 'No setting would change.' : 'No setting changed.';
  const some = isDryRun ? 'These settings would change:' : 'These settings changed:';
  return [
    changed.length === 0 ? none : `${some}\n${list(changed)}`,
    ...(affected ? [affectedText(reload)] : []),
    ...(affectedTokens.length === 0
      ? []
      : [`Minted tokens that would stop or lose tools:\n${list(affectedTokens.map(tokenText))}`]),
    ...(notReloadable.length === 0
      ? []
      : [`Secrets in variables, which need a restart:\n${list(notReloadable)}`]),
    ...(unanswered.length === 0
      ? []
      : [
          `Processes that did not answer, and fail /readyz until they follow:\n${list(unanswered)}`,
        ]),
  ].join('\n\n');
}

function tokenText({ id, name, reason, ...loss }: AffectedToken): string {
  return `${id}  ${plain(name)}  ${reason === undefined ? lossText(loss) : `stops (${reason})`}`;
}
