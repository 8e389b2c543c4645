// The keys that sign access tokens.
import { z } from 'zod';
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
} as const satisfies Record<string, Operation>;

export const keyFields: Fields<Key> = {
  id: { code: 'id' },
  state: { text: 'state' },
  signsFrom: { time: 'signsFrom' },
  removed: { time: 'publishedUntil', heading: 'published until' },
};

const COLUMNS = 'id state signsFrom removed';

const keysText = (items: readonly Key[]) => listText(keyFields, COLUMNS, items);

const EXAMPLES = `
Examples:
  $ gatehouse keys list
  $ gatehouse keys rotate
  $ gatehouse keys rotate --at-once`;

export const keyCommands: ResourceCommands = {
  noun: 'keys',
  description: 'list and rotate the keys that sign access tokens',
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
  ],
};
