// Items of the audit log.
import * as z from 'zod';
import { auditEvents } from '../../observability/labels.ts';
import { type Operation, TEXT_STREAM } from './resource.ts';
import * as schemas from './schemas.ts';

const auditItemSchema = z
  .strictObject({
    id: z.string().optional().describe('Unique. Items of earlier versions have none.'),
    epoch: z
      .string()
      .optional()
      .describe('Of the log: another one begins when the store is restored.'),
    number: z
      .int()
      .optional()
      .describe('Of the item, in the order of storing, without gaps within an epoch.'),
    time: schemas.time,
    event: z.string().describe(`One of ${auditEvents.join(', ')}.`),
    account: z.string().optional(),
    clientId: z.string().optional(),
    connector: z.string().optional(),
    grantId: z.string().optional(),
    by: z
      .string()
      .optional()
      .describe(
        'Who made the change: `key:<name>` for a management key, `account:<id>` for an administrator in the console. Older items have the account id alone.',
      ),
    tool: z.string().optional().describe('Of `tools/call`. Other requests have `method`.'),
    method: z.string().optional(),
    target: z.string().optional().describe('A resource without its query, or a prompt.'),
    upstream: z.string().optional().describe('The id of the MCP server.'),
    level: z.string().optional().describe('The level of the caller.'),
    toolError: z.boolean().optional().describe('The result of the tool says that it failed.'),
    ms: z.int().optional().describe('Milliseconds until the response ended.'),
    bytesIn: z.int().optional().describe('Of the body of the request.'),
    bytesOut: z.int().optional().describe('Of the body of the response.'),
    address: z.string().optional(),
    userAgent: z.string().optional(),
    clientName: z.string().optional().describe('What the app calls itself (`clientInfo`).'),
    subject: z.string().optional().describe('Of a workload: who it is at its platform.'),
    traceId: z.string().optional(),
    call: z.string().optional().describe('The id of the call that ended.'),
    count: z.int().optional().describe('How many refused calls, or items, this one stands for.'),
    checkpoint: z.int().optional().describe('The number of a checkpoint.'),
    jws: z.string().optional().describe('What a checkpoint signs (RFC 7515).'),
    class: z.string().optional().describe('Of trimmed items: `lasting` or `bulk`.'),
    ranges: z
      .array(z.tuple([z.int(), z.int()]))
      .optional()
      .describe('The first and last numbers of trimmed items.'),
    arguments: z.unknown().optional().describe('Details of the event.'),
    argumentsJson: z
      .string()
      .optional()
      .describe(
        'The arguments of a call as JSON text, up to 64 kB, if its level keeps them. Of longer ones, texts and lists above 1 kB are replaced by `{bytes, sha256}`. Older calls have `arguments` in its place.',
      ),
    outcome: z
      .string()
      .describe('Of a call: `started` until it has ended, then `answered`, `failed` or `refused`.'),
    reason: z.string().optional(),
  })
  .meta({ id: 'AuditItem' });

/** What items are found by. */
const filters = {
  since: schemas.timestamp.optional().describe('Only items of this time and later.'),
  until: schemas.timestamp.optional().describe('Only items before this time.'),
  event: schemas.oneOf(auditEvents),
  outcome: schemas
    .idSchema('an outcome such as refused')
    .optional()
    .describe('Of calls: `answered`, `failed`, `refused` or `started`.'),
  account: schemas
    .idSchema('the id of an account')
    .optional()
    .describe('An account id, `machine:<id>`, `minted:<id>` or `workload:<id>`.'),
  client: schemas.idSchema('the id of a client').optional(),
  connector: schemas.idSchema('the id of a connector').optional(),
  tool: schemas
    .idSchema('the name of a tool')
    .optional()
    .describe('The name of a tool, or the method of other requests.'),
  grant: schemas.idSchema('the id of a grant').optional(),
};

export const auditQuery = z.strictObject({
  ...schemas.pageQuery(/^\d{32}$/),
  ...filters,
  order: z.enum(['oldest', 'newest'], 'oldest or newest: the items to list first').optional(),
  q: schemas.search(
    'its names or its texts, in the newest 10,000 items that match the other parameters. For viewers, arguments are not searched',
  ),
});

/** The media types of exports by format. */
export const EXPORTS = {
  jsonl: 'application/x-ndjson; charset=utf-8',
  csv: 'text/csv; charset=utf-8',
} as const;

const exportQuery = z.strictObject({
  ...filters,
  format: z
    .enum(['jsonl', 'csv'], 'jsonl or csv')
    .default('jsonl')
    .describe(
      '`jsonl`: a line about the export, then items as lines of JSON; without other filters than times, as they are stored, with what `gatehouse audit verify --file` needs. `csv`: items as lists show them.',
    ),
});

const auditPageSchema = z
  .strictObject({
    ...schemas.pageMembers(auditItemSchema),
    names: z
      .record(z.string(), z.string())
      .optional()
      .describe('The present names of people, apps, connectors and minted tokens, by id.'),
    searched: z
      .int()
      .optional()
      .describe('With `q`: how many items were searched, the newest first.'),
    unreadable: z
      .int()
      .optional()
      .describe(
        'How many items on the way to this page cannot be read. They may match. Absent if there are none.',
      ),
  })
  .meta({ id: 'AuditPage' });

export const auditOperations = {
  listAudit: {
    method: 'get',
    path: '/audit',
    role: 'viewer',
    summary:
      'Lists audit items, newest first unless `order` is `oldest`. A call and how it ended are one item. A page can be empty although `next` is present. Without the role auditor, items have no arguments of calls, addresses and user agents.',
    query: auditQuery,
    response: auditPageSchema,
  },
  exportAudit: {
    method: 'get',
    path: '/audit/export',
    role: 'auditor',
    summary:
      'Sends every audit item that matches, oldest first, with the present names. A connection that ends early is an incomplete export.',
    query: exportQuery,
    response: TEXT_STREAM,
    stream: EXPORTS,
  },
} as const satisfies Record<string, Operation>;
