// Workloads: programs that get access with the JWT of their platform, by rules in the settings.
import { readFile } from 'node:fs/promises';
import * as z from 'zod';
import { ManagementError } from '../api/management-error.ts';
import { minute, plain } from '../commands/terminal.ts';
import { callsField, detailsText, type Fields, lastUsedFields, toolsField } from './fields.ts';
import {
  type Argument,
  type ConsoleList,
  NOT_FOUND,
  type Operation,
  type ResourceCommands,
} from './resource.ts';
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

/** What the JWT says is bounded, because it can be anything. */
const shownValue = z
  .string()
  .describe('JSON text, shortened. Absent if the JWT does not have it.')
  .optional();

export const workloadTestSchema = z
  .strictObject({
    accepted: z.boolean().describe('A token request with it, now, would get a token.'),
    issuer: z.string().optional().describe('The id of the trusted issuer.'),
    checks: z.array(
      z.strictObject({
        name: z.string().describe('What was checked, such as `aud`.'),
        value: shownValue,
        error: z.string().optional().describe('Why the JWT is refused for it.'),
      }),
    ),
    rules: z.array(
      z.strictObject({
        id: z.string().describe('`<issuer id>:<rule id>`.'),
        link: z.string().optional().describe('The `resource` of its token requests.'),
        level: schemas.level,
        unmatched: z.array(
          z.strictObject({ claim: z.string(), pattern: z.string(), value: shownValue }),
        ),
        error: z.string().optional().describe('Why the rule gives no token for the JWT.'),
      }),
    ),
  })
  .meta({ id: 'WorkloadTest' });

export type WorkloadTest = z.output<typeof workloadTestSchema>;

const JWT_TEXT = 'a signed JWT';
const MAX_JWT_LENGTH = 16_384;
const testBody = z.strictObject(
  {
    assertion: z
      .string(JWT_TEXT)
      .max(MAX_JWT_LENGTH, JWT_TEXT)
      .regex(/^[\w-]+\.[\w-]+\.[\w-]*$/, JWT_TEXT)
      .describe('The JWT of the platform. It is neither stored nor logged, and stays usable.'),
    resource: z
      .string('a connect link')
      .optional()
      .describe('A connect link: only rules about it. Without it, all rules of the issuer.'),
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
  testWorkload: {
    method: 'post',
    path: '/workloads/test',
    role: 'operator',
    body: () => testBody,
    summary:
      'Says what a JWT of a platform would get, with every check and rule. Fetches the keys of its issuer.',
    response: workloadTestSchema,
    timeoutSeconds: 20,
  },
} as const satisfies Record<string, Operation>;

const fields: Fields<Workload> = {
  id: { code: 'id' },
  issuer: { code: 'issuer' },
  state: { text: 'state' },
  connector: { text: 'connector', none: '-' },
  level: { level: 'level', label: 'granted', none: '-' },
  limit: callsField(),
  expires: { time: 'expiresAt', none: 'never' },
  lastSubject: {
    heading: 'last subject',
    text: ({ subjects }) => subjects[0] && plain(subjects[0].subject),
    none: 'never used',
  },
  subjects: {
    heading: 'last subjects',
    text: ({ subjects }) =>
      subjects.map(({ subject, time }) => `${plain(subject)} (${minute(time)})`).join(', '),
    none: 'none',
    console: ({ subjects }) =>
      subjects.length === 0
        ? []
        : [{ label: 'subjects', codes: subjects.map(({ subject }) => plain(subject)) }],
  },
  lastUsed: { console: ({ subjects }) => lastUsedFields('lastUsed', subjects[0]?.time) },
  tools: toolsField(),
};

export const workloadList: ConsoleList<Workload> = {
  section: 'workloads',
  operation: 'listWorkloads',
  limit: Infinity,
  fields,
  title: ({ id }) => id,
  state: ({ state }) => `workload-${state}`,
  isOk: ({ state }) => state === 'active',
  facts: 'connector level lastUsed',
  details: 'issuer subjects tools limit expires',
  actions: [
    {
      path: 'pause',
      operation: 'pauseWorkload',
      done: 'workload-paused',
      button: ({ state }) => (state === 'active' ? 'pauseWorkload' : undefined),
    },
    {
      path: 'resume',
      operation: 'resumeWorkload',
      done: 'workload-resumed',
      button: ({ state }) => (state === 'paused' ? 'resumeWorkload' : undefined),
    },
    {
      path: 'end',
      operation: 'endWorkload',
      done: 'workload-ended',
      button: ({ state }) => (state === 'ended' ? undefined : 'endWorkload'),
    },
  ],
};

const ID: Argument = { name: 'id', help: '<issuer id>:<rule id>, see gatehouse workload list' };

const EXAMPLES = `
Examples:
  $ gatehouse workload list
  $ gatehouse workload test --token-file /var/run/secrets/gatehouse/token
  $ gatehouse workload pause token.actions.githubusercontent.com:deploy`;

const shown = (workload: Workload) =>
  detailsText(fields, 'id state issuer connector level limit expires subjects', workload);

export const workloadCommands: ResourceCommands = {
  noun: 'workload',
  description:
    'list, pause, resume and end the rules about workloads in the settings, and test a JWT',
  examples: EXAMPLES,
  commands: [
    {
      operation: 'listWorkloads',
      name: 'list',
      description: 'list the rules about workloads, with their last subjects',
      help: EXAMPLES,
      fields,
      columns: 'id state connector level expires lastSubject',
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
    {
      operation: 'testWorkload',
      name: 'test',
      description: 'explain what a JWT of a platform would get: every check, every rule',
      options: [
        {
          flags: '--token-file <file>',
          help: 'file with the JWT; it is sent to Gatehouse alone, and never printed',
          isRequired: true,
          members: async (file: string) => ({ assertion: await readJwt(file) }),
        },
        {
          flags: '--resource <link>',
          help: 'connect link: only rules about it',
        },
      ],
      help: `
The JWT is not used up. The exit code is 0 if it would get a token, and 1 if not.
${EXAMPLES}`,
      text: testText,
      exitCode: ({ accepted }) => (accepted ? 0 : 1),
    },
  ],
};

async function readJwt(file: string): Promise<string> {
  try {
    return (await readFile(file, 'utf8')).trim();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new ManagementError('invalid_request', `${file} cannot be read (${code})`);
  }
}

function testText({ accepted, issuer, checks, rules }: WorkloadTest): string {
  const shown = (value: string | undefined) => (value === undefined ? '' : ` ${plain(value)}`);
  const line = (name: string, value: string | undefined, error: string | undefined) =>
    `${error === undefined ? 'ok    ' : 'fails '} ${name}${shown(value)}${error === undefined ? '' : `: ${plain(error)}`}`;
  return [
    ...checks.map(({ name, value, error }) => line(name, value, error)),
    ...rules.flatMap(({ id, link, error, unmatched }) => [
      line(`rule ${id}`, link, error),
      ...unmatched.map(
        ({ claim, pattern, value }) =>
          `         ${plain(claim)} is${value === undefined ? ' absent' : shown(value)}, and must be ${plain(pattern)}`,
      ),
    ]),
    ...(issuer !== undefined && rules.length === 0
      ? ['fails  no rule is about the connect link']
      : []),
    '',
    accepted ? 'It would get a token.' : 'It would get no token.',
  ].join('\n');
}
