// The keys that sign access tokens, and those of the store.
import * as z from 'zod';
import type { SigningKeyState } from '../../keys/signing-keys.ts';
import { type Fields, listText } from './fields.ts';
import type { Operation, ResourceCommands } from './resource.ts';
import * as schemas from './schemas.ts';

const STATES = ['next', 'signing', 'retiring'] as const satisfies SigningKeyState[];

export const keySchema = z
  .strictObject({
    id: z.string(),
    state: z.enum(STATES),
    signsFrom: schemas.time,
    publishedUntil: schemas.time
      .optional()
      .describe('When the last token signed with the key expires.'),
  })
  .meta({ id: 'SigningKey' });

export type Key = z.output<typeof keySchema>;

const keyPageSchema = schemas.pageSchema('SigningKeyPage', keySchema);

export const rewrapSchema = z
  .strictObject({
    total: z.int().describe('Records of the store, and the record of its keys.'),
    done: z.int().describe('Encrypted with the newest keys.'),
    remaining: z.int(),
    failed: z.int().describe('No key of the store reads them.'),
    unreadable: z.array(z.string()).describe('The names of the first of those, in the database.'),
  })
  .meta({ id: 'Rewrap' });

type Rewrap = z.output<typeof rewrapSchema>;

const rewrapBody = () =>
  z.strictObject({ newDataKeys: z.boolean('true or false').optional() }, schemas.OBJECT);

export const keyOperations = {
  listKeys: {
    method: 'get',
    path: '/keys',
    role: 'viewer',
    summary: 'Lists the published signing keys, newest first.',
    response: keyPageSchema,
  },
  rotateKeys: {
    method: 'post',
    path: '/keys/rotate',
    role: 'administrator',
    summary:
      'Publishes a new signing key, which replaces the current one. With `atOnce`, every access token stops working.',
    body: () => z.strictObject({ atOnce: z.boolean('true or false').optional() }, schemas.OBJECT),
    isBodyOptional: true,
    status: 201,
    response: keyPageSchema,
    errors: { 409: 'A rotation is already in progress.' },
  },
  rewrapKeys: {
    method: 'post',
    path: '/keys/rewrap',
    role: 'administrator',
    summary:
      'Reads the whole store, re-encrypts values of older keys with the newest ones, and ends earlier root secrets. Responds after 10 seconds at the latest, while the pass goes on. With `newDataKeys`, new keys encrypt everything, and existing refresh tokens, codes and cookies end.',
    body: rewrapBody,
    isBodyOptional: true,
    timeoutSeconds: 60,
    response: rewrapSchema,
    errors: { 409: 'The process has an earlier root secret.' },
  },
} as const satisfies Record<string, Operation>;

export const keyFields: Fields<Key> = {
  id: { code: 'id' },
  state: { text: 'state' },
  signsFrom: { time: 'signsFrom' },
  removed: { time: 'publishedUntil', heading: 'published until' },
};

const COLUMNS = 'id state signsFrom removed';

const keysText = (items: readonly Key[]) => listText(keyFields, COLUMNS, items);

/** Only when nothing remains and nothing failed, it says that the previous secret can go. */
function rewrapText({ total, done, remaining, failed, unreadable }: Rewrap): string {
  const counts = `total ${total}, done ${done}, remaining ${remaining}, failed ${failed}`;
  if (failed > 0)
    return [
      counts,
      'No key of this store reads these records. Restore them from a backup, or delete them in the database:',
      ...unreadable.map((name) => `  ${name}`),
      ...(failed > unreadable.length ? [`  and ${failed - unreadable.length} more`] : []),
    ].join('\n');
  if (remaining > 0) return `${counts}\nThe pass goes on. Run the command again.`;
  return `${counts}\nEverything is encrypted with the newest keys, and earlier root secrets open nothing. Remove GATEHOUSE_PREVIOUS_SECRET if it is set.`;
}

const EXAMPLES = `
Examples:
  $ gatehouse keys list
  $ gatehouse keys rotate
  $ gatehouse keys rotate --at-once
  $ gatehouse keys rewrap`;

export const keyCommands: ResourceCommands = {
  noun: 'keys',
  description: 'list and rotate the keys that sign access tokens, and replace those of the store',
  examples: EXAMPLES,
  commands: [
    {
      operation: 'listKeys',
      name: 'list',
      description: 'list the published keys, newest first',
      text: ({ items }) => keysText(items),
    },
    {
      operation: 'rotateKeys',
      name: 'rotate',
      description: 'replace the signing key',
      options: [
        {
          flags: '--at-once',
          help: 'replace a leaked key immediately and invalidate all access tokens',
        },
      ],
      help: `
Publishes a new key, which signs in 10 minutes. The old key stays published until the last token it signed has expired,
minted tokens included. Existing tokens keep working.

Use --at-once for a key that leaked. All access tokens stop working within a minute; other programs that verify tokens may
accept them for up to 5 minutes. Apps with a refresh token get new access tokens; in other apps, people sign in again. Minted
tokens stop working too: gatehouse token list shows which.
${EXAMPLES}`,
      text: ({ items }, { atOnce }) =>
        atOnce
          ? `Replaced the key. Earlier access tokens no longer work. Apps with a refresh token get new ones.
Earlier minted tokens no longer work: mint new ones (gatehouse token list shows which).\n\n${keysText(items)}`
          : `Published a new key. It starts signing at the time shown.\n\n${keysText(items)}`,
    },
    {
      operation: 'rewrapKeys',
      name: 'rewrap',
      description: 'end earlier root secrets, and check that every record can be read',
      options: [
        {
          flags: '--new-data-keys',
          help: 'encrypt everything with new keys, because the store was copied too: people sign in again',
        },
      ],
      help: `
Run it after every process was restarted with the new root secret as GATEHOUSE_SECRET and the earlier one as
GATEHOUSE_PREVIOUS_SECRET. It reads the whole store, goes on past records that cannot be read and names them, and can be repeated.

A copy of the store and its root secret together reveal the keys. --new-data-keys makes new ones. Existing refresh tokens, codes, cookies
and open pages end: people connect again. Also run gatehouse keys rotate --at-once, and replace what the store protects:
management keys in it, minted tokens, keys of machines.

Exit codes: 0 nothing remains and nothing failed, 1 otherwise.
${EXAMPLES}`,
      async run(api, { options }) {
        let progress = await api.rewrapKeys({
          body: options['newDataKeys'] === true ? { newDataKeys: true } : {},
        });
        while (progress.remaining > 0) progress = await api.rewrapKeys({ body: {} });
        return progress;
      },
      text: rewrapText,
      exitCode: ({ remaining, failed }) => (remaining + failed > 0 ? 1 : 0),
    },
  ],
};
