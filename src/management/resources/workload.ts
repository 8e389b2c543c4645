// Workloads: programs that get access with the JWT of their platform, by rules in the settings.
import { z } from 'zod';
import { plain } from '../commands/terminal.ts';
import { detailsText, type Fields } from './fields.ts';
import { type Argument, NOT_FOUND, type Operation, type ResourceCommands } from './resource.ts';
import * as schemas from './schemas.ts';

/** `gone`: the settings no longer have the rule. */
const WORKLOAD_STATES = ['active', 'paused', 'ended', 'expired', 'gone'] as const;

export const workloadSchema = z
  .strictObject({
    id: z.string().describe('`<issuer id>:<rule id>`.'),
    issuer: z.string(),
    state: z.enum(WORKLOAD_STATES),
    connector: z.string().optional().describe('Id or name, as in the settings.'),
    level: schemas.level.optional(),
    tools: schemas.tools.optional(),
    calls: schemas.calls,
    expiresAt: schemas.time.optional(),
    grant: z.string().optional().describe('The id of the grant of its tokens.'),
    subjects: z
      .array(z.strictObject({ subject: z.string(), time: schemas.time }))
      .describe(
        'Those whose JWTs matched last, with the time of their last token, within a minute.',
      ),
  })
  .meta({ id: 'Workload' });

export type Workload = z.output<typeof workloadSchema>;

const ID_TEXT = '<issuer id>:<rule id>';
const idBody = z.strictObject(
  {
    id: z
      .string(ID_TEXT)
      .regex(/^.{1,253}:[a-z][a-z0-9-]{0,31}$/, ID_TEXT)
      .describe('Of a rule, as in the list.'),
  },
  schemas.OBJECT,
);
const NOT_ACTIVE = { ...NOT_FOUND, 409: 'The rule was ended.' };

export const workloadOperations = {
  listWorkloads: {
    method: 'get',
    path: '/workloads',
    role: 'viewer',
    summary: 'Lists the rules about workloads in the settings.',
    response: schemas.pageSchema('WorkloadPage', workloadSchema),
  },
  pauseWorkload: {
    method: 'post',
    path: '/workloads/pause',
    role: 'operator',
    body: () => idBody,
    summary: 'Pauses a rule: its tokens end immediately, and it gives none until it is resumed.',
    response: workloadSchema,
    errors: NOT_ACTIVE,
  },
  resumeWorkload: {
    method: 'post',
    path: '/workloads/resume',
    role: 'operator',
    body: () => idBody,
    summary: 'Resumes a rule that was paused.',
    response: workloadSchema,
    errors: NOT_ACTIVE,
  },
  endWorkload: {
    method: 'post',
    path: '/workloads/end',
    role: 'operator',
    body: () => idBody,
    summary: 'Ends a rule. Its tokens end immediately, and it never matches again under its id.',
    response: workloadSchema,
    errors: NOT_FOUND,
  },
} as const satisfies Record<string, Operation>;

const fields: Fields<Workload> = {
  id: { code: 'id' },
  issuer: { code: 'issuer' },
  state: { text: 'state' },
  connector: { text: 'connector', none: '-' },
  level: { level: 'level', none: '-' },
  limit: { text: 'calls', heading: 'limit on calls' },
  expires: { time: 'expiresAt', none: 'never' },
  subjects: {
    heading: 'last subject',
    text: ({ subjects }) => subjects[0] && plain(subjects[0].subject),
    none: 'never used',
  },
};

const ID: Argument = { name: 'id', help: '<issuer id>:<rule id>, see gatehouse workload list' };

const EXAMPLES = `
Examples:
  $ gatehouse workload list
  $ gatehouse workload pause token.actions.githubusercontent.com:deploy`;

const shown = (workload: Workload) =>
  detailsText(fields, 'id state issuer connector level limit expires subjects', workload);

export const workloadCommands: ResourceCommands = {
  noun: 'workload',
  description: 'list, pause, resume and end the rules about workloads in the settings',
  examples: EXAMPLES,
  commands: [
    {
      operation: 'listWorkloads',
      name: 'list',
      description: 'list the rules about workloads, with their last subjects',
      help: EXAMPLES,
      fields,
      columns: 'id state connector level expires subjects',
      empty: 'The settings have no rules about workloads (authorization.trustedIssuers).',
    },
    {
      operation: 'pauseWorkload',
      name: 'pause',
      description: 'end the tokens of a rule, and give none until it is resumed',
      argument: ID,
      text: (workload) => `Paused.\n\n${shown(workload)}`,
    },
    {
      operation: 'resumeWorkload',
      name: 'resume',
      description: 'resume a rule that was paused',
      argument: ID,
      text: (workload) => `Resumed.\n\n${shown(workload)}`,
    },
    {
      operation: 'endWorkload',
      name: 'end',
      description: 'end a rule for good; another one needs another id',
      argument: ID,
      text: (workload) => `Ended.\n\n${shown(workload)}`,
    },
  ],
};
