// Connectors, machines and rules of apps as a file: `gatehouse apply` makes them equal to it, and `gatehouse export` writes it.
import * as z from 'zod';
import { table } from '../commands/terminal.ts';
import { affectedMembers, affectedText } from './affected.ts';
import { clientRuleSchema } from './client-rule.ts';
import { audience, connectorSchema, maxUses } from './connector.ts';
import { hasOneKey, machineKey, machineSchema, ONE_KEY } from './machine.ts';
import type { Operation } from './resource.ts';
import * as schemas from './schemas.ts';

export const MAX_FILE_BYTES = 8 * 1024 * 1024;
const TIMEOUT_SECONDS = 300;
const MAX_RECORDS = 10_000;

const KEY = '1 to 64 letters, digits, points, hyphens and underscores, the first no point';
const LEVEL = 'the id of a level';
const ID = 'the id of a record, to adopt it under this key';
const DESTINATIONS = 'a list of 1 to 50 hosts, `loopback`, `device` or schemes such as `app:`';
const MAX_DESTINATIONS = 50;
const MAX_DESTINATION_LENGTH = 300;
const RECORD = 'an object with a key';

const key = z
  .string(KEY)
  .regex(/^[\w-][\w.-]{0,63}$/, KEY)
  .describe('Names the record in this file. No other record of its list has it.');
const id = z
  .string(ID)
  .min(1, ID)
  .max(64, ID)
  .optional()
  .describe('Of a record without a key, which gets this one. Without it, the key may be the id.');
/** Checked against the settings where it is new: a stored level may no longer be in them. */
const level = z.string(LEVEL).min(1, LEVEL).max(64, LEVEL);

export const connectorRecord = z.strictObject(
  {
    key,
    id,
    name: schemas.newName,
    upstream: schemas.newUpstream,
    level,
    suggestedLevel: level.optional(),
    audience: audience.optional(),
    tools: schemas.newTools,
    maxUses: maxUses.optional(),
    calls: schemas.newCalls,
    expiresAt: schemas.timestamp.optional(),
    paused: z.boolean('true or false').optional(),
  },
  RECORD,
);

export const machineRecord = z
  .strictObject(
    {
      key,
      id,
      name: schemas.newName,
      connector: z.string(KEY).min(1, KEY).max(64, KEY).describe('The key of its connector.'),
      level,
      tools: schemas.newTools,
      ...machineKey,
      calls: schemas.newCalls,
      expiresAt: schemas.timestamp,
    },
    RECORD,
  )
  .refine(hasOneKey, ONE_KEY);

export const ruleRecord = z.strictObject(
  {
    key,
    id,
    effect: z.enum(['block', 'allow'], 'block or allow'),
    host: z.string().max(500).optional().describe('Of a block: with its subdomains.'),
    name: z.string().max(500).optional().describe('Of a block without a host, or of an app.'),
    destinations: z
      .array(z.string(DESTINATIONS).min(1, DESTINATIONS).max(MAX_DESTINATION_LENGTH), DESTINATIONS)
      .min(1, DESTINATIONS)
      .max(MAX_DESTINATIONS, DESTINATIONS)
      .optional()
      .describe('Of an allowed app: where its redirect URIs may lead.'),
  },
  RECORD,
);

export type ConnectorRecord = z.output<typeof connectorRecord>;
export type MachineRecord = z.output<typeof machineRecord>;
export type RuleRecord = z.output<typeof ruleRecord>;

export const FILE = 'an object with connectors, machines and clientRules';
const LIST = `a list of at most ${MAX_RECORDS} records`;
export const list = <Item extends z.ZodType>(item: Item) =>
  z.array(item, LIST).max(MAX_RECORDS, LIST);

const fileSchema = z.strictObject(
  {
    connectors: list(connectorRecord).optional(),
    machines: list(machineRecord).optional(),
    clientRules: list(ruleRecord).optional(),
  },
  FILE,
);

/** As a client sends it. */
export type SentFile = z.input<typeof fileSchema>;

const exportedKey = { key: z.string() };

export const exportedConnector = z.strictObject({
  ...exportedKey,
  ...connectorSchema.pick({
    name: true,
    upstream: true,
    level: true,
    suggestedLevel: true,
    audience: true,
    tools: true,
    maxUses: true,
    calls: true,
    expiresAt: true,
    paused: true,
  }).shape,
});

export const exportedMachine = z.strictObject({
  ...exportedKey,
  ...machineSchema.pick({ name: true, connector: true, level: true, tools: true, calls: true })
    .shape,
  jwks: z.looseObject({ keys: z.array(z.looseObject({})) }).optional(),
  jwksUri: z.string().optional(),
  expiresAt: schemas.time,
});

export const exportedRule = z.strictObject({
  ...exportedKey,
  ...clientRuleSchema.pick({ effect: true, host: true, name: true, destinations: true }).shape,
});

const exportSchema = z
  .strictObject({
    connectors: z.array(exportedConnector),
    machines: z.array(exportedMachine),
    clientRules: z.array(exportedRule),
  })
  .meta({ id: 'File' });

export type ExportedFile = z.output<typeof exportSchema>;

export const KINDS = ['connectors', 'machines', 'clientRules'] as const;
export type Kind = (typeof KINDS)[number];

export const ACTIONS = ['created', 'updated', 'adopted', 'ended', 'unchanged', 'failed'] as const;
export type Action = (typeof ACTIONS)[number];

const resultSchema = z
  .strictObject({
    key: schemas.key.optional(),
    id: z.string().optional().describe('Absent for a record that was not created yet.'),
    name: z.string(),
    action: z
      .enum(ACTIONS)
      .describe('`adopted`: it was equal to the file, which now has it under this key.'),
    changed: z.array(z.string()).optional().describe('The members that were updated.'),
    error: z.string().optional().describe('Of a failure: what the same request alone gets.'),
    error_description: z.string().optional(),
  })
  .meta({ id: 'AppliedRecord' });

export type Result = z.output<typeof resultSchema>;

export const appliedSchema = z
  .strictObject({
    connectors: z.array(resultSchema),
    machines: z.array(resultSchema),
    clientRules: z.array(resultSchema),
    ...affectedMembers,
    affected: affectedMembers.affected
      .unwrap()
      .describe(
        'The connections that stop or have a lower level: of a dry run those that would, otherwise those that did.',
      ),
  })
  .meta({ id: 'Applied' });

export type Applied = z.output<typeof appliedSchema>;

const LIMIT = 'a whole number from 0 to 99999';

const applyQuery = z.strictObject({
  dryRun: z
    .enum(['true', 'false'], 'true or false')
    .optional()
    .describe('With `true`, nothing is changed.'),
  prune: z
    .enum(['true', 'all'], 'true or all')
    .optional()
    .describe(
      'Ends the records that are absent from the lists of the file: with `true`, those with a key; with `all`, all of them.',
    ),
  pruneLimit: z
    .string(LIMIT)
    .regex(/^\d{1,5}$/, LIMIT)
    .transform(Number)
    .optional()
    .describe('The most records that may end. Needed to end more than half of a kind.'),
});

export const applyOperations = {
  applyFile: {
    method: 'post',
    path: '/apply',
    role: 'operator',
    summary:
      'Makes connectors, machines and app rules equal to a file, and says which connections lose access. Applying it again changes nothing.',
    query: applyQuery,
    body: () => fileSchema,
    isFile: true,
    maxBodyBytes: MAX_FILE_BYTES,
    timeoutSeconds: TIMEOUT_SECONDS,
    response: appliedSchema,
    errors: { 409: 'Another file is being applied, or too many records would end.' },
  },
  exportFile: {
    method: 'get',
    path: '/export',
    role: 'viewer',
    summary:
      'Writes connectors, machines and app rules as a file that can be applied. It has no secrets.',
    timeoutSeconds: TIMEOUT_SECONDS,
    response: exportSchema,
  },
} as const satisfies Record<string, Operation>;

const HEADINGS: Record<Kind, string[]> = {
  connectors: ['CONNECTOR', 'NAME', 'PLAN', ''],
  machines: ['MACHINE', 'NAME', 'PLAN', ''],
  clientRules: ['APP RULE', 'NAME', 'PLAN', ''],
};

/** What the command prints. */
export function appliedText(applied: Applied, isDryRun: boolean): string {
  const results = KINDS.flatMap((kind) => applied[kind]);
  const changes = KINDS.flatMap((kind) => {
    const shown = applied[kind].filter(({ action }) => action !== 'unchanged');
    return shown.length > 0 ? [table(HEADINGS[kind], shown.map(cellsOf))] : [];
  });
  const counts = ACTIONS.flatMap((action) => {
    const count = results.filter((result) => result.action === action).length;
    return count > 0 ? [`${count} ${action}`] : [];
  });
  const hasChanges = changesAnything(applied);
  return [
    ...changes,
    ...(hasChanges ? [affectedText(applied, !isDryRun)] : []),
    hasChanges
      ? `${isDryRun ? 'This would be' : 'Done'}: ${counts.join(', ')}.`
      : `Nothing ${isDryRun ? 'would change' : 'changed'}: ${counts.join(', ') || 'the file is empty'}.`,
  ].join('\n\n');
}

/** An adopted record only gets its key. A block that was in force before still ends the connections that a stopped run has left. */
export function changesAnything(applied: Applied): boolean {
  const results = KINDS.flatMap((kind) => applied[kind]);
  const isChange = ({ action }: Result) => action !== 'unchanged' && action !== 'adopted';
  return results.some(isChange) || applied.affected.length > 0;
}

function cellsOf({ key: own, id: known, name, action, changed, error_description: why }: Result) {
  return [own ?? known ?? '', name, action, why ?? changed?.join(', ') ?? ''];
}
