// The connections that would stop or have a lower level after a change, as a dry run names them.
import * as z from 'zod';
import { CONNECTION_STATES } from '../../connections/connection.ts';
import type { AffectedConnection, ToolLoss } from '../../connections/affected.ts';
import { minute, plain } from '../commands/terminal.ts';
import { isoTime } from '../represent.ts';
import * as schemas from './schemas.ts';

const connectionSchema = z.strictObject({
  state: z.enum(CONNECTION_STATES),
  level: schemas.level.optional(),
  reason: z.string().optional().describe('Why it would not work, as a code.'),
  endsAt: schemas.time.optional().describe('When it would end, if not at once.'),
});

export const toolLossMembers = {
  lostTools: z
    .array(z.string())
    .optional()
    .describe('Tools that it could use, if it goes on with fewer.'),
  mayLoseUnknown: z
    .literal(true)
    .optional()
    .describe(
      'It may also lose what is not known by name: resources, prompts, or the tools of a server that was not read.',
    ),
};

const affectedSchema = z
  .strictObject({
    grantId: z.string(),
    account: z.strictObject({ id: z.string(), name: z.string().optional() }),
    client: z.strictObject({ id: z.string(), name: z.string() }),
    before: connectionSchema,
    after: connectionSchema,
    ...toolLossMembers,
  })
  .meta({ id: 'AffectedConnection' });

export type Affected = z.output<typeof affectedSchema>;

/** The members of a response that has them. */
export const affectedMembers = {
  affected: z
    .array(affectedSchema)
    .optional()
    .describe('Of a dry run: the connections that would stop, have a lower level or lose tools.'),
  isAffectedPartial: z
    .literal(true)
    .optional()
    .describe('There are too many connections to read all of them.'),
};

export type AffectedMembers = z.output<z.ZodObject<typeof affectedMembers>>;

export function affectedResources({
  items,
  isAll,
}: {
  items: readonly AffectedConnection[];
  isAll: boolean;
}): AffectedMembers & { affected: Affected[] } {
  return {
    affected: items.map(affectedResource),
    ...(isAll ? {} : { isAffectedPartial: true as const }),
  };
}

function affectedResource({
  before,
  after,
  endsAt,
  lostTools,
  mayLoseUnknown,
}: AffectedConnection): Affected {
  const { id: grantId, account, client } = before;
  const shown = ({ state, level, reason }: AffectedConnection['before']) => ({
    state,
    ...(level === undefined ? {} : { level }),
    ...(reason === undefined ? {} : { reason }),
  });
  return {
    grantId,
    account: { id: account.id, ...(account.name === undefined ? {} : { name: account.name }) },
    client: { id: client.id, name: client.name },
    before: shown(before),
    after: { ...shown(after), ...(endsAt === undefined ? {} : { endsAt: isoTime(endsAt) }) },
    ...(lostTools ? { lostTools } : {}),
    ...(mayLoseUnknown ? { mayLoseUnknown } : {}),
  };
}

/** What a command prints before the change, or after it. */
export function affectedText(
  { affected = [], isAffectedPartial }: AffectedMembers,
  isDone = false,
): string {
  const lines = affected.map(lineOf);
  const effects = affected.some(({ lostTools, mayLoseUnknown }) => lostTools ?? mayLoseUnknown)
    ? 'stop, have a lower level or lose tools'
    : 'stop or have a lower level';
  const count =
    lines.length === 0
      ? `No connection ${isDone ? 'stops or has' : 'would stop or have'} a lower level.`
      : `Connections that ${isDone ? '' : 'would '}${effects}: ${lines.length}\n${lines.join('\n')}`;
  return `${count}${isAffectedPartial ? '\nThere may be more: not all connections were read.' : ''}`;
}

const SHOWN_TOOLS = 20;

function lineOf({ grantId, account, client, before, after, ...loss }: Affected): string {
  const person = `${plain(account.name ?? 'unknown')} (${account.id})`;
  const app = `${plain(client.name)} (${client.id})`;
  const connection = `  ${grantId}  ${person}  ${app}  `;
  const isSame = after.reason === before.reason && after.level === before.level;
  const effect = isSame ? '' : `${before.level} → ${effectOf(before.level, after)}`;
  return connection + [effect, lossText(loss)].filter(Boolean).join(', ');
}

/** Empty without a loss. */
export function lossText({ lostTools, mayLoseUnknown }: ToolLoss): string {
  const names = lostTools?.slice(0, SHOWN_TOOLS).map(plain).join(', ');
  const more = (lostTools?.length ?? 0) > SHOWN_TOOLS ? ', …' : '';
  const unknown = 'may lose tools, resources or prompts that are not known';
  return [names && `loses ${names}${more}`, mayLoseUnknown && unknown].filter(Boolean).join(', ');
}

function effectOf(level: string | undefined, { level: next, reason, endsAt }: Affected['after']) {
  if (reason === undefined) return next;
  if (endsAt === undefined) return `stops (${reason})`;
  return `${next === level ? '' : `${next}, `}stops ${minute(endsAt)} (${reason})`;
}
