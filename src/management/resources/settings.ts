// The settings of the processes, read again without a restart.
import { z } from 'zod';
import { affectedMembers, affectedText } from './affected.ts';
import type { Operation } from './resource.ts';
import * as schemas from './schemas.ts';

const names = (what: string) => z.array(z.string()).describe(what);

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
  const { changed, notReloadable, unanswered, affected } = reload;
  const list = (items: readonly string[]) => items.map((item) => `  ${item}`).join('\n');
  const none = isDryRun ? 'No setting would change.' : 'No setting changed.';
  const some = isDryRun ? 'These settings would change:' : 'These settings changed:';
  return [
    changed.length === 0 ? none : `${some}\n${list(changed)}`,
    ...(affected ? [affectedText(reload)] : []),
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
