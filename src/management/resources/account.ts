// Accounts: people who have signed in.
import * as z from 'zod';
import { ACCOUNT_ID, ACCOUNT_ID_LENGTH, normalizeEmail } from '../../people/account.ts';
import { allItems } from '../api/all-items.ts';
import { searchOption } from '../commands/options.ts';
import { foundOnly, resolveId } from '../commands/resolve.ts';
import { details, minute, plain } from '../commands/terminal.ts';
import { recordPath } from '../console/address.ts';
import { detailsText, type Fields } from './fields.ts';
import { callLimits, limitLines } from './call-limit.ts';
import { keptOutSchema } from './kept-out.ts';
import { accessLines, accessMember } from './person-access.ts';
import {
  type Argument,
  type ConsoleList,
  type Operation,
  type ResourceCommands,
  TEXT_STREAM,
} from './resource.ts';
import * as schemas from './schemas.ts';

export const emailVerified = z
  .boolean()
  .optional()
  .describe('Whether the identity provider verified that the address belongs to the person.');

export const accountSchema = z
  .strictObject({
    id: z.string(),
    name: z.string(),
    email: z.string().optional(),
    emailVerified,
    identityProvider: z
      .string()
      .describe('Issuer of the identity provider that `subject` belongs to.'),
    subject: z.string(),
    signedInAt: schemas.time.describe('When the person last signed in.'),
    disabledAt: schemas.time.optional(),
    forgottenAt: schemas.time
      .optional()
      .describe('When the personal data was removed. `name` is the id from then on.'),
  })
  .meta({ id: 'Account' });

export type Account = z.output<typeof accountSchema>;

const claimsSchema = z.strictObject({
  name: z.string(),
  email: z.string().optional(),
  emailVerified,
  groups: z.array(z.string()),
  groupsOmitted: z
    .literal(true)
    .optional()
    .describe('The provider left the groups out, because they are too many.'),
  provider: z
    .string()
    .describe(
      'Id of the sign-in provider or trusted issuer; its issuer if the settings no longer have it.',
    ),
  time: schemas.time.describe('When they arrived.'),
});

const accountDetailsSchema = accountSchema
  .extend({
    claims: claimsSchema
      .optional()
      .describe(
        'What the identity provider said of the person last. Absent if the account was forgotten.',
      ),
    access: accessMember,
    limits: callLimits,
    keptOut: z
      .array(keptOutSchema)
      .describe('Apps that an administrator keeps away from the person.'),
  })
  .meta({ id: 'AccountDetails' });

export type AccountDetails = z.output<typeof accountDetailsSchema>;

const forgottenAccountSchema = z
  .strictObject({
    id: z.string().describe('The only identifier that remains, here and in the audit log.'),
    isDisabled: z.boolean().describe('Whether the account stays disabled.'),
    endedGrants: z.int(),
  })
  .meta({ id: 'ForgottenAccount' });

/** Disabled people keep their account. */
const ACCOUNT_STATES = ['active', 'disabled'] as const;
const SEARCHED = 'the name, verified email address, id or identity provider';

export const accountOperations = {
  listAccounts: {
    method: 'get',
    path: '/accounts',
    role: 'viewer',
    summary: 'Lists accounts, in no particular order.',
    query: z.strictObject({
      ...schemas.pageQuery(new RegExp(`^\\w?[\\w-]{${ACCOUNT_ID_LENGTH}}$`)),
      q: schemas.search(SEARCHED),
      state: schemas.oneOf(ACCOUNT_STATES),
    }),
    response: schemas.pageSchema('AccountPage', accountSchema),
  },
  showAccount: {
    method: 'get',
    path: '/accounts/:id',
    role: 'viewer',
    summary:
      'Shows an account, what the identity provider said of the person, and what the person gets through each connector.',
    response: accountDetailsSchema,
  },
  exportAccount: {
    method: 'get',
    path: '/accounts/:id/export',
    role: 'administrator',
    summary:
      'Sends what is stored about a person as JSON Lines: the account with what is kept out, its grants, credentials without secrets, attempts, and the items of the audit log about it.',
    response: TEXT_STREAM,
    stream: 'application/x-ndjson; charset=utf-8',
  },
  disableAccount: {
    method: 'post',
    path: '/accounts/:id/disable',
    role: 'administrator',
    summary:
      'Disables an account. All its connections stop working and the person cannot connect. Not found if the account was forgotten.',
    response: accountSchema,
  },
  enableAccount: {
    method: 'post',
    path: '/accounts/:id/enable',
    role: 'administrator',
    summary: 'Lets a person sign in and connect again.',
    response: accountSchema,
  },
  forgetAccount: {
    method: 'post',
    path: '/accounts/:id/forget',
    role: 'administrator',
    summary:
      'Ends all connections of a person and deletes name, email address, groups and subject. A disabled account stays disabled.',
    response: forgottenAccountSchema,
  },
} as const satisfies Record<string, Operation>;

export const accountFields: Fields<Account> = {
  id: { code: 'id' },
  name: { text: 'name' },
  email: {
    text: ({ email, emailVerified: isVerified }) =>
      email && (isVerified ? email : `${email} (not verified)`),
    none: '-',
    console: ({ email, emailVerified: isVerified }) =>
      email === undefined ? [] : [{ label: isVerified ? 'email' : 'emailUnverified', text: email }],
  },
  verifiedEmail: {
    label: 'email',
    text: ({ email, emailVerified: isVerified }) => (isVerified ? email : undefined),
  },
  emailUnverified: {
    text: ({ email, emailVerified: isVerified }) => (isVerified ? undefined : email),
  },
  provider: { code: 'identityProvider', heading: 'identity provider', none: '-' },
  subject: { code: 'subject', none: '-' },
  signedIn: { time: 'signedInAt', heading: 'last sign-in' },
  disabled: {
    time: 'disabledAt',
    row: ({ disabledAt }) => (disabledAt ? `since ${minute(disabledAt)}` : 'no'),
  },
  forgotten: { time: 'forgottenAt' },
};

const EXAMPLES = `
Examples:
  $ gatehouse account list --search example.com
  $ gatehouse account disable ada@example.com`;

/** People choose their names, so a text that looks like an id or an address is never compared with names. */
export const ACCOUNT: Required<Argument> = {
  name: 'account',
  help: 'id, verified email address or unique name, see gatehouse account list',
  resolve: (api, argument) =>
    resolveId<Account>(argument, {
      noun: 'account',
      names: ', verified email address or name',
      find: async (text) =>
        ACCOUNT_ID.test(text) ? foundOnly(api.showAccount({ id: text })) : undefined,
      list: () => allItems((query) => api.listAccounts({ query })),
      isNamed: ({ name, email, emailVerified: isVerified }, text) =>
        text.includes('@')
          ? isVerified === true && normalizeEmail(email ?? '') === normalizeEmail(text)
          : !ACCOUNT_ID.test(text) && name.normalize() === text,
      describe: ({ name, identityProvider, signedInAt }) =>
        `${name}  ${identityProvider}  signed in ${minute(signedInAt)}`,
      id: ACCOUNT_ID,
    }),
};

export const accountCommands: ResourceCommands = {
  noun: 'account',
  description: 'list, disable, enable and forget people (accounts) who have signed in',
  examples: EXAMPLES,
  commands: [
    {
      operation: 'listAccounts',
      name: 'list',
      description: 'list people who have signed in, by name',
      options: [searchOption(SEARCHED)],
      sort: byName,
      fields: accountFields,
      columns: 'id name email signedIn disabled',
      empty: 'Nobody has signed in yet.',
    },
    {
      operation: 'showAccount',
      name: 'show',
      description: 'show one account',
      argument: ACCOUNT,
      text: accountText,
    },
    {
      name: 'export',
      description: 'write what is stored about a person as JSON Lines',
      argument: ACCOUNT,
      help: `
The account with the apps that are kept out, its connections, its credentials without secrets, its attempts, and what the audit
log has about it. The export is recorded in the audit log.`,
      lines: async (api, { id }) => api.exportAccount({ id }),
    },
    {
      operation: 'disableAccount',
      name: 'disable',
      description: 'end all connections of a person and prevent new ones',
      argument: ACCOUNT,
      help: `
All connections of the person end within a minute, usually immediately. Enabling the account does not restore them.
${EXAMPLES}`,
      text: ({ name, id }) =>
        `Disabled ${plain(name)} (${id}). Their connections no longer work. To undo:
  gatehouse account enable ${id}`,
    },
    {
      operation: 'enableAccount',
      name: 'enable',
      description: 'let a disabled person sign in and connect again',
      argument: ACCOUNT,
      text: ({ name, id }) =>
        `Enabled ${plain(name)} (${id}). They can sign in and connect again. Earlier connections are not restored.`,
    },
    {
      operation: 'forgetAccount',
      name: 'forget',
      description: 'end all connections of a person and delete their personal data',
      argument: ACCOUNT,
      help: `
Ends all connections of the person and deletes their name, email address, groups and subject. You cannot undo this.
Ended connections and the audit log keep only the id. A disabled account stays disabled; otherwise the person can sign in
again and gets a new account.
${EXAMPLES}`,
      text: ({ id, isDisabled, endedGrants }) => {
        const grants = endedGrants === 1 ? '1 connection' : `${endedGrants} connections`;
        const next = isDisabled
          ? 'The account stays disabled.'
          : 'The person can sign in again and gets a new account.';
        return `Deleted the personal data of ${id} and ended ${grants}. ${next}`;
      },
    },
  ],
};

function accountText(account: AccountDetails): string {
  const { claims, access } = account;
  const names = 'name email id provider subject signedIn disabled forgotten';
  const groups = claims?.groups.map(plain).join(', ') || 'none';
  const arrived = claims && {
    groups: claims.groupsOmitted ? 'left out by the provider, because they are too many' : groups,
    arrived: `${minute(claims.time)} from ${claims.provider}`,
  };
  const section = (title: string, lines: readonly string[]) =>
    lines.length === 0 ? [] : [[title, ...lines.map((line) => `  ${line}`)].join('\n')];
  return [
    detailsText(accountFields, names, account),
    ...(arrived ? [details(arrived)] : []),
    ...section('Access:', accessLines(access)),
    ...section(
      'Kept out:',
      account.keptOut.map(
        ({ id, clientName, since }) => `${id}  ${plain(clientName)}  since ${minute(since)}`,
      ),
    ),
    ...section('Limits on calls:', limitLines(account.limits)),
  ].join('\n\n');
}

export function accountState({ disabledAt, forgottenAt }: Account) {
  if (disabledAt === undefined) return 'active';
  return forgottenAt === undefined ? 'disabled' : 'deleted';
}

function byName(accounts: readonly Account[]): Account[] {
  return accounts.toSorted((a, b) => a.name.localeCompare(b.name));
}

export const accountList: ConsoleList<Account> = {
  section: 'accounts',
  operation: 'listAccounts',
  limit: 50,
  sort: byName,
  order: 'title',
  fields: accountFields,
  title: ({ id, name, forgottenAt }) => (forgottenAt === undefined ? name : id),
  titleKey: ({ forgottenAt }) => forgottenAt && 'console.record.deletedPerson',
  href: ({ id }) => recordPath('accounts', id),
  state: accountState,
  isOk: ({ disabledAt }) => disabledAt === undefined,
  facts: 'verifiedEmail signedIn',
  details: 'emailUnverified disabled forgotten provider id',
  actions: [
    {
      path: 'disable',
      operation: 'disableAccount',
      done: 'disabled',
      button: ({ disabledAt }) => (disabledAt === undefined ? 'disable' : undefined),
    },
    {
      path: 'enable',
      operation: 'enableAccount',
      done: 'enabled',
      button: (account) =>
        ({ active: undefined, disabled: 'enable', deleted: 'enableDeleted' })[
          accountState(account)
        ],
    },
    {
      path: 'forget',
      operation: 'forgetAccount',
      done: 'forgotten',
      keepsPage: () => false,
      button: ({ disabledAt, forgottenAt }) => {
        if (forgottenAt !== undefined) return undefined;
        return disabledAt === undefined ? 'forget' : 'forgetDisabled';
      },
    },
  ],
};
