// What a person would get through each connector, and by which rule, or why nothing.
import { z } from 'zod';
import { MAX_EMAIL_LENGTH } from '../../people/account.ts';
import { RULE_KINDS, RULE_MISSES, type RuleMiss } from '../../people/entitlement.ts';
import { plain } from '../commands/terminal.ts';
import { ACCOUNT } from './account.ts';
import { CONNECTOR } from './connector.ts';
import { accessLines, accessSchema } from './person-access.ts';
import { NOT_FOUND, type Operation, type ResourceCommands } from './resource.ts';
import * as schemas from './schemas.ts';

const MAX_GROUPS = 500;
const GROUPS = `at most ${MAX_GROUPS} groups`;
const ADDRESS = 'an email address';

const judgedRule = z.strictObject({
  rule: z.string().describe('Its place: `entitlements[2]` in the settings, or `audience[0]`.'),
  kind: z.enum(RULE_KINDS),
  value: z.string().optional().describe('What it has to be equal to.'),
  provider: z.string().optional(),
  level: schemas.level.optional().describe('What an entitlement gives.'),
  miss: z.enum(RULE_MISSES).optional().describe('Why it does not match. Absent if it does.'),
});

export type JudgedRule = z.output<typeof judgedRule>;

const explanationSchema = z
  .strictObject({
    provider: z.string().describe('The id of the sign-in provider or trusted issuer.'),
    entitlements: z.array(judgedRule),
    access: z.array(
      accessSchema.extend({
        audience: z
          .array(judgedRule)
          .optional()
          .describe('The rules of its audience, if it has one.'),
      }),
    ),
  })
  .meta({ id: 'AccessExplanation' });

export type AccessExplanation = z.output<typeof explanationSchema>;

const missingGroupsSchema = z
  .strictObject({
    items: z.array(
      z.strictObject({
        provider: z.string(),
        rules: z.array(z.string()).describe('The rules about groups: `entitlements[2]`.'),
        remedy: z.string(),
      }),
    ),
  })
  .meta({ id: 'MissingGroups' });

export const accessOperations = {
  explainAccess: {
    method: 'post',
    path: '/access/explain',
    role: 'viewer',
    summary:
      'Says what a person gets through each connector, and why: somebody who has signed in, or anybody with this email address and these groups. Changes nothing.',
    body: () =>
      z.strictObject(
        {
          account: schemas.idSchema('the id of an account').optional(),
          email: z
            .email(ADDRESS)
            .max(MAX_EMAIL_LENGTH, ADDRESS)
            .optional()
            .describe('Counts as verified. With `account`, replaces its address.'),
          groups: z
            .array(z.string('the name of a group').max(500, 'the name of a group'))
            .max(MAX_GROUPS, GROUPS)
            .optional()
            .describe('With `account`, replace its groups.'),
          provider: schemas
            .idSchema('the id of an identity provider or trusted issuer')
            .optional()
            .describe('Default: the owner of the email domain, or the only provider.'),
          connector: schemas.idSchema('the id of a connector').optional().describe('Default: all.'),
        },
        schemas.OBJECT,
      ),
    isBodyOptional: true,
    response: explanationSchema,
    errors: NOT_FOUND,
  },
  listMissingGroups: {
    method: 'get',
    path: '/access/missing-groups',
    role: 'viewer',
    summary:
      'Lists identity providers whose groups rules use, through which people signed in within a week, but nobody with groups.',
    response: missingGroupsSchema,
  },
} as const satisfies Record<string, Operation>;

const MISSES: Record<RuleMiss, string> = {
  other_provider: 'is about another identity provider',
  other_subject: 'is about another person',
  no_groups: 'the provider sent no groups',
  groups_omitted: 'the provider left the groups out, because they are too many',
  not_in_group: 'is not in this group',
  not_in_organization: 'is not in this organization',
  no_email: 'the provider sent no email address',
  email_not_verified: 'the email address is not verified',
  other_email: 'has another email address',
  other_email_domain: 'has an address in another domain',
  unusable_rule: 'does not fit the identity providers in the settings',
};

function ruleLine({ rule, kind, value, provider, level, miss }: JudgedRule): string {
  const about = [kind, value && plain(value), provider && `at ${provider}`]
    .filter(Boolean)
    .join(' ');
  const gives = level === undefined ? '' : ` gives ${level}`;
  return `${rule} (${about})${gives}: ${miss === undefined ? 'matches' : `no match, ${MISSES[miss]}`}`;
}

const list = (lines: readonly string[]) => lines.map((line) => `  ${line}`).join('\n');

function explanationText({ provider, entitlements, access }: AccessExplanation): string {
  const audiences = access.flatMap(({ name, audience }) =>
    audience ? [`Audience of ${plain(name)}:\n${list(audience.map(ruleLine))}`] : [],
  );
  return [
    `Through ${provider}:\n${access.length === 0 ? '  There is no connector.' : list(accessLines(access))}`,
    `Entitlements:\n${entitlements.length === 0 ? '  none' : list(entitlements.map(ruleLine))}`,
    ...audiences,
  ].join('\n\n');
}

export const accessCommands: ResourceCommands = {
  noun: 'access',
  description: 'explain what a person gets through the connectors, and why',
  examples: `
Examples:
  $ gatehouse access explain --email ada@example.com --groups analysts,staff --connector Reports
  $ gatehouse access explain --account ada@example.com`,
  commands: [
    {
      operation: 'explainAccess',
      name: 'explain',
      description: 'say what a person gets, by which rule, and why other rules do not match',
      help: `
The decision is the one that is made when the person connects an app. It needs nobody who has signed in: without --account, it is about
anybody with this verified email address and these groups.`,
      options: [
        {
          flags: '--account <account>',
          help: ACCOUNT.help,
          members: async (account: string, api) => ({
            account: await ACCOUNT.resolve(api, account),
          }),
        },
        { flags: '--email <address>', help: 'the verified email address' },
        {
          flags: '--groups <groups>',
          help: 'the groups, separated by commas',
          parse: (text: string) =>
            text
              .split(',')
              .map((group) => group.trim())
              .filter(Boolean),
        },
        {
          flags: '--provider <id>',
          help: 'the identity provider or trusted issuer (default: the owner of the email domain, or the only one)',
        },
        {
          flags: '--connector <connector>',
          help: 'id, connect link or unique name (default: all)',
          members: async (connector: string, api) => ({
            connector: await CONNECTOR.resolve(api, connector),
          }),
        },
      ],
      text: explanationText,
    },
  ],
};
