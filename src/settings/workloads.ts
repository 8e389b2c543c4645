// The rules about workloads of a trusted issuer: which programs, by the JWT of their platform, get access through which connector.
import * as z from 'zod';
import { rate } from './limits.ts';
import { toolPatterns } from './tool-patterns.ts';
import { isDistinct, shortId } from './value-types.ts';

const MAX_PATTERN_LENGTH = 1000;
const PATTERN =
  'a text in which * stands for any characters; what is before the first * ends with : / or @, so that no longer name begins with it';

/** `acme*` would also match `acme-evil`. */
const pattern = z
  .string(PATTERN)
  .min(1, PATTERN)
  .max(MAX_PATTERN_LENGTH, PATTERN)
  .refine((text) => !text.includes('*') || /^[^*]*[:/@]\*/.test(text), PATTERN);

const MATCH = 'an object with subject, claims or both';

const workload = z.strictObject({
  id: shortId.describe('Id of the rule. A rule that was ended stays so under its id.'),
  match: z
    .strictObject(
      {
        subject: pattern.optional().describe('The `sub` of the JWT.'),
        claims: z.record(z.string().min(1).max(256), pattern).optional().meta({
          description:
            'Other claims, by name or JSON pointer (`/kubernetes.io/serviceaccount/uid`). Numbers and booleans compare as text, and a list matches if one member does.',
          valueType: 'claims with patterns',
        }),
      },
      MATCH,
    )
    .refine(
      ({ subject, claims }) => subject !== undefined || Object.keys(claims ?? {}).length > 0,
      MATCH,
    )
    .describe('What the JWT must say. All of it must match.'),
  connector: z.string().min(1).max(100).describe('Id of a connector, or a name that only one has.'),
  level: z.string('the id of a level').meta({
    description: 'Level of its tokens: an id of `levels`.',
    valueType: 'id of a level',
  }),
  tools: toolPatterns.optional().meta({
    description: 'What it opens of the MCP server, as for a connector.',
    defaultText: 'everything of the level',
  }),
  calls: rate
    .optional()
    .meta({ description: 'Limit on all its calls, such as `1000/1d`.', defaultText: 'none' }),
  expires: z.iso
    .datetime({ offset: true, error: 'a time such as 2030-01-31T12:00:00Z' })
    .transform((text) => Math.floor(Date.parse(text) / 1000))
    .optional()
    .meta({ description: 'When the rule ends.', valueType: 'time', defaultText: 'never' }),
});

export type WorkloadRule = z.output<typeof workload>;

export const workloadsSchema = z
  .array(workload)
  .max(1000, 'at most 1000 rules')
  .refine((rules) => isDistinct(rules.map(({ id }) => id)), 'a unique id for each')
  .default([])
  .describe(
    'Programs that get access tokens with a JWT of their platform, without a client secret: which of them, through which connector, at which level.',
  );

/** Domains of issuers that many organizations share, with the claims that identify one of them and are never given away again. */
const SHARED_ISSUERS: Readonly<Record<string, readonly string[]>> = {
  'actions.githubusercontent.com': ['repository_owner_id', 'repository_id'],
  'gitlab.com': ['namespace_id', 'project_id'],
  'buildkite.com': ['organization_id', 'pipeline_id'],
  'app.terraform.io': ['terraform_organization_id', 'terraform_project_id'],
  'accounts.google.com': ['sub'],
  'vercel.com': ['owner_id', 'project_id'],
};

/** What a rule of a shared issuer lacks. Undefined if it names the id of an owner or project exactly, or if nobody shares the issuer. */
export function missingOwner(
  issuer: string,
  { match: { subject, claims = {} } }: Pick<WorkloadRule, 'match'>,
): string | undefined {
  const { host = '' } = URL.parse(issuer) ?? {};
  const [, ids] =
    Object.entries(SHARED_ISSUERS).find(
      ([domain]) => host === domain || host.endsWith(`.${domain}`),
    ) ?? [];
  const named: Record<string, string> = {
    ...claims,
    ...(subject === undefined ? {} : { sub: subject }),
  };
  const isNamed = ids?.some((id) => {
    const text = named[id];
    return text !== undefined && !text.includes('*');
  });
  if (!ids || isNamed) return undefined;
  return `one of ${ids.join(', ')} in match, exactly, because other organizations use this issuer too and names are given away again: add claims: {${ids[0]}: '<id>'}`;
}

const PREFIX = 'workload:';

/** The account of the grant of a rule, and the `sub` and `client_id` of its tokens. */
export function workloadSubject(issuerId: string, ruleId: string): string {
  return `${PREFIX}${issuerId}:${ruleId}`;
}

/** `<issuer id>:<rule id>`. */
export function idOfSubject(subject: string): string {
  return subject.slice(PREFIX.length);
}

export function isWorkloadSubject(accountId: string): boolean {
  return accountId.startsWith(PREFIX);
}

type IssuerWithWorkloads = { id: string; issuer: string; workloads: readonly WorkloadRule[] };

type NamedConnector = { id: string; name?: string | undefined };

/** Names may be those of several connectors. */
export function namesConnector(
  { connector: named }: Pick<WorkloadRule, 'connector'>,
  connector: NamedConnector,
): boolean {
  return named === connector.id || named === connector.name;
}

/** Undefined if the settings do not have the rule of this subject. */
export function findWorkload<Issuer extends IssuerWithWorkloads>(
  issuers: readonly Issuer[],
  subject: string,
): { issuer: Issuer; rule: WorkloadRule } | undefined {
  for (const issuer of issuers)
    for (const rule of issuer.workloads)
      if (workloadSubject(issuer.id, rule.id) === subject) return { issuer, rule };
  return undefined;
}

/** The rule of this subject for the connector. Undefined if the settings do not have it any more, or it has expired. */
export function ruleInForce(
  issuers: readonly IssuerWithWorkloads[],
  subject: string,
  { connector, now }: { connector: NamedConnector; now: number },
): WorkloadRule | undefined {
  const { rule } = findWorkload(issuers, subject) ?? {};
  return rule && namesConnector(rule, connector) && (rule.expires ?? Infinity) > now
    ? rule
    : undefined;
}
