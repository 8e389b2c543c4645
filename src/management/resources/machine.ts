// Machines: clients that an administrator creates, which connect to one connector without a person.
import { createPublicKey } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import * as z from 'zod';
import { machineCommand } from '../../links/app-instructions.ts';
import type { Levels } from '../../permission-levels.ts';
import { isKeySetAddress, isPublicKeySet, PRIVATE_MEMBERS } from '../../settings/key-set.ts';
import { ManagementError } from '../api/management-error.ts';
import {
  CALLS_OPTION,
  CHANGED_CALLS_OPTION,
  changedToolsOption,
  expiresOption,
  toolsOption,
} from '../commands/options.ts';
import type { MachineChange } from '../../clients/machines.ts';
import { minute, plain } from '../commands/terminal.ts';
import { etagOf } from '../etags.ts';
import { represent } from '../represent.ts';
import { CONNECTOR } from './connector.ts';
import { callsField, detailsText, type Fields, toolsField } from './fields.ts';
import {
  CALLS_FIELD,
  daysField,
  expiryField,
  type FormField,
  levelField,
  nameField,
  TOOLS_FIELD,
} from './form-fields.ts';
import { openedField, openedMember, openedText } from './opened.ts';
import {
  type Argument,
  type Command,
  type CommandOption,
  NOT_FOUND,
  type Operation,
} from './resource.ts';
import * as schemas from './schemas.ts';

export const machineSchema = z
  .strictObject({
    id: z.string(),
    key: schemas.key.optional(),
    name: z.string(),
    connector: z.string(),
    link: z.string().describe('The `resource` of its token requests.'),
    level: schemas.level,
    tools: schemas.tools.optional(),
    ...openedMember,
    by: z
      .string()
      .optional()
      .describe('Who created it, as in the audit log. Absent if an earlier version created it.'),
    expiresAt: schemas.time,
    calls: schemas.calls,
    authentication: z.enum(['client_secret_basic', 'private_key_jwt']),
    secret: z.string().optional().describe('The only response that contains it.'),
  })
  .meta({ id: 'Machine' });

export type MachineResource = z.output<typeof machineSchema>;

export const changedMachineSchema = machineSchema
  .omit({ authentication: true, secret: true })
  .meta({ id: 'ChangedMachine' });

export type ChangedMachine = z.output<typeof changedMachineSchema>;

/** What an administrator can change. */
export const changeableMachineSchema = machineSchema.pick({
  key: true,
  name: true,
  tools: true,
  expiresAt: true,
  calls: true,
});

export function machineEtag(machine: z.output<typeof changeableMachineSchema>): string {
  return etagOf(represent(changeableMachineSchema, machine));
}

const PUBLIC_KEYS = 'a JSON Web Key Set with 1 to 10 public keys';
const KEY_TYPES = ['EC', 'OKP', 'RSA'] as const;
const MAX_KEYS = 10;
const MAX_URL_LENGTH = 2000;

const publicKey = z
  .looseObject({ kty: z.enum(KEY_TYPES, PUBLIC_KEYS) }, PUBLIC_KEYS)
  .refine((key) => !PRIVATE_MEMBERS.some((member) => member in key), 'public keys only');

export const machineKey = {
  jwks: z
    .strictObject(
      { keys: z.array(publicKey, PUBLIC_KEYS).min(1, PUBLIC_KEYS).max(MAX_KEYS, PUBLIC_KEYS) },
      PUBLIC_KEYS,
    )
    .refine(isPublicKeySet, PUBLIC_KEYS)
    .optional()
    .describe(
      'Public keys with which the machine signs (`private_key_jwt`). Without a key it gets a secret.',
    ),
  jwksUri: z
    .url({ protocol: /^https$/, error: 'an https URL' })
    .max(MAX_URL_LENGTH, 'an https URL')
    .refine(isKeySetAddress, 'an https URL with a host name and without a port')
    .optional()
    .describe('Address of the public keys, on a public host.'),
};

export const ONE_KEY = 'either jwks or jwksUri, not both';
export const hasOneKey = ({ jwks, jwksUri }: { jwks?: unknown; jwksUri?: unknown }) =>
  jwks === undefined || jwksUri === undefined;

const machineKeyBody = z
  .strictObject({ id: schemas.idSchema('the id of a client'), ...machineKey }, schemas.OBJECT)
  .refine(hasOneKey, ONE_KEY);

/** A machine always expires. */
function newMachineBody(now: number, levels: Levels) {
  return z
    .strictObject(
      {
        name: schemas.newName,
        connector: schemas.idSchema('the id of a connector'),
        level: schemas.levelIn(levels),
        tools: schemas.newTools,
        calls: schemas.newCalls,
        ...machineKey,
        ...schemas.expiryFields(now, schemas.MAX_LIFETIME_SECONDS),
      },
      schemas.OBJECT,
    )
    .refine(schemas.hasOneExpiry, schemas.ONE_EXPIRY)
    .refine(hasOneKey, ONE_KEY)
    .transform(({ expiresIn = schemas.DEFAULT_LIFETIME_SECONDS, ...machine }) => {
      return { expiresAt: now + expiresIn, ...machine };
    });
}

function changedMachineBody(now: number) {
  return z
    .strictObject(
      {
        id: schemas.idSchema('the id of a client'),
        name: schemas.newName.optional(),
        tools: schemas.changedTools,
        calls: schemas.changedCalls,
        ...schemas.expiryFields(now, schemas.MAX_LIFETIME_SECONDS),
      },
      schemas.OBJECT,
    )
    .refine(schemas.hasOneExpiry, schemas.ONE_EXPIRY)
    .transform((sent): MachineChange & { id: string } => schemas.withExpiry(now, sent));
}

export const machineOperations = {
  createMachine: {
    method: 'post',
    path: '/clients',
    role: 'operator',
    summary:
      'Creates a machine: a client that connects to one connector without a person (RFC 6749 section 4.4).',
    body: newMachineBody,
    status: 201,
    response: machineSchema,
    errors: { ...NOT_FOUND, 409: 'The connector has ended, or has no use left.' },
  },
  showMachine: {
    method: 'get',
    path: '/clients/machine',
    role: 'viewer',
    summary: 'Shows a machine, by its id.',
    query: z.strictObject({ id: schemas.idSchema('the id of a client') }),
    response: changedMachineSchema,
    etag: machineEtag,
    errors: { ...NOT_FOUND, 409: 'The machine or its connector has ended.' },
  },
  updateMachine: {
    method: 'patch',
    path: '/clients',
    role: 'operator',
    summary:
      'Changes the name, the expiry or the limit of a machine, or what it opens. Its tokens and its connection stay.',
    body: changedMachineBody,
    response: changedMachineSchema,
    etag: machineEtag,
    errors: { ...NOT_FOUND, 409: 'The machine or its connector has ended.' },
  },
  replaceMachineKey: {
    method: 'post',
    path: '/clients/key',
    role: 'operator',
    summary: 'Replaces the secret or key of a machine. Its tokens end immediately.',
    body: () => machineKeyBody,
    response: machineSchema,
    errors: { ...NOT_FOUND, 409: 'The machine or its connector has ended.' },
  },
} as const satisfies Record<string, Operation>;

const fields: Fields<MachineResource> = {
  clientId: { code: 'id' },
  secret: { code: 'secret' },
  authentication: { text: ({ secret, authentication }) => (secret ? '' : authentication) },
  resource: { code: 'link' },
  level: { level: 'level' },
  tools: toolsField(),
  opened: openedField,
  calls: callsField(),
  expires: { time: 'expiresAt' },
};

const EXAMPLES = `
Examples:
  $ gatehouse client create --name "CI" --connector <connector> --level operations
  $ gatehouse client create --name "CI" --connector <connector> --level operations --public-key ci.pub.pem
  $ gatehouse client update CI --expires 180d
  $ gatehouse client key CI`;

const KEY_OPTIONS: readonly CommandOption[] = [
  {
    flags: '--public-key <file>',
    help: 'file with its public key: PEM, JWK or JWK set',
    async members(file: string, _api, { jwksUri }) {
      if (jwksUri !== undefined)
        throw new ManagementError(
          'invalid_request',
          'use either --public-key or --jwks-uri, not both',
        );
      return { jwks: keySetIn(await readKeyFile(file), file) };
    },
  },
  { flags: '--jwks-uri <url>', help: 'https address of its public keys (JWK set)' },
];

/** The commands of `gatehouse client` for machines. `client` is the argument that names one. */
export function machineCommands(client: Argument): readonly Command[] {
  return [
    {
      operation: 'createMachine',
      name: 'create',
      description: 'create a machine: a client that connects without a person',
      options: [
        { flags: '--name <name>', help: 'name in lists and in the audit log', isRequired: true },
        {
          flags: '--connector <connector>',
          help: CONNECTOR.help,
          isRequired: true,
          members: async (text: string, api) => ({
            connector: await CONNECTOR.resolve(api, text),
          }),
        },
        {
          flags: '--level <level>',
          help: 'level of its calls, at most that of the connector',
          isRequired: true,
        },
        toolsOption('what it opens, as far as the connector does'),
        ...KEY_OPTIONS,
        CALLS_OPTION,
        expiresOption('12h, 30d or 366d', 'default: 90d'),
      ],
      help: `
A machine connects through one connector at one level (OAuth client credentials), and counts as one use of the connector.
Without a public key, it gets a secret, which is shown only once.
${EXAMPLES}`,
      text: (machine) => machineText('Created', machine),
    },
    {
      operation: 'updateMachine',
      name: 'update',
      description: 'change the name, the expiry or the limit of a machine, or what it opens',
      argument: client,
      options: [
        { flags: '--name <name>', help: 'name in lists and in the audit log' },
        changedToolsOption('what it opens'),
        CHANGED_CALLS_OPTION,
        expiresOption('12h, 30d or 366d'),
      ],
      help: `
Its secret or key, its tokens and its connection stay. Apps that people connect choose their own names.
${EXAMPLES}`,
      text: ({ name, id, opened, expiresAt }) =>
        `Changed the machine ${plain(name)} (${id}). It expires ${minute(expiresAt)}.${opened ? `\nIt opens ${openedText(opened)}.` : ''}`,
    },
    {
      operation: 'replaceMachineKey',
      name: 'key',
      description: 'replace the secret or key of a machine and end its tokens immediately',
      argument: client,
      options: KEY_OPTIONS,
      help: `
Without a public key, the machine gets a new secret, which is shown only once.
${EXAMPLES}`,
      text: (machine) => machineText('Replaced the key of', machine),
    },
  ];
}

async function readKeyFile(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new ManagementError('invalid_request', `${file} cannot be read (${code})`);
  }
}

/** A private key never leaves this computer. */
function keySetIn(text: string, file: string): { keys: unknown[] } {
  if (/PRIVATE KEY|"d"\s*:/.test(text))
    throw new ManagementError(
      'invalid_request',
      `${file} contains a private key. Export the public key: openssl pkey -in ${file} -pubout`,
    );
  try {
    const parsed = text.trimStart().startsWith('{')
      ? JSON.parse(text)
      : createPublicKey(text).export({ format: 'jwk' });
    return Array.isArray(parsed.keys) ? parsed : { keys: [parsed] };
  } catch {
    throw new ManagementError(
      'invalid_request',
      `${file} is not a public key in PEM, JWK or JWK set format`,
    );
  }
}

function machineText(did: string, machine: MachineResource): string {
  const { id, name, link, secret } = machine;
  const shown = 'clientId secret authentication resource level tools opened calls expires';
  return `${did} the machine ${plain(name)}.${secret === undefined ? '' : ' Its secret is shown only once.'}

${detailsText(fields, shown, machine)}
${
  secret === undefined
    ? ''
    : `\nTo test (asks for the secret):\n  ${machineCommand({ id, link })}\n`
}
To revoke it:
  gatehouse client revoke ${id}
`;
}

export const machineEditForm: readonly FormField[] = [
  nameField('console.fields.ownNameNote'),
  TOOLS_FIELD,
  CALLS_FIELD,
  expiryField('machineExpires', 'console.machines.expiresNote', true),
];

export const machineForm: readonly FormField[] = [
  nameField('console.fields.ownNameNote'),
  levelField('console.fields.granted', 'console.fields.grantedNote'),
  TOOLS_FIELD,
  CALLS_FIELD,
  daysField('console.machines.daysNote'),
  {
    name: 'keys',
    kind: 'url',
    maxLength: 500,
    label: 'console.machines.keys',
    notes: ['console.machines.keysNote'],
    members: (text) => ({ jwksUri: text }),
  },
];
