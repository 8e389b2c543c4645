import { findAccount, isGone } from '../people/accounts.ts';
import { type Account, type Claims, claimsVia, viaOfAccount } from '../people/account.ts';
import { findMissingGroups } from '../people/arrived-groups.ts';
import { judgeRules } from '../people/entitlement.ts';
import { personAccess } from '../connections/person-access.ts';
import { findRefusal } from '../connections/refusals.ts';
import type { Connector } from '../links/connector.ts';
import { findConnector, listConnectors } from '../links/connectors.ts';
import { HttpError, notFound } from '../http/errors.ts';
import {
  type IdentitySource,
  identitySourcesOf,
  ownerOf,
  type Via,
} from '../settings/entitlements.ts';
import { findUpstream } from '../settings/upstreams.ts';
import { isSameIssuer } from '../settings/value-types.ts';
import { findKnownTools } from '../upstreams/tool-pin-records.ts';
import type { ApiRequest } from './api/operations.ts';
import { isoTime } from './represent.ts';
import type { Handlers, ManagementContext } from './context.ts';
import type { refusalOperations } from './resources/refusal.ts';
import type { accessOperations, ToolAccess } from './resources/access.ts';
import { explainTools, knownServer } from './explained-tools.ts';
import type { PersonAccess } from './resources/person-access.ts';
import { whoReaches } from './who-reaches.ts';

export const accessHandlers: Handlers<keyof typeof accessOperations> = {
  async showAccess(management, { query }) {
    const account = await requireAccount(management, query.account);
    const [connector] = await explainedConnectors(management, query.connector);
    if (!connector) throw notFound('there is no connector with this id');
    const via = viaOfAccount(account);
    return toolAccess(management, { account, via, connector }, query.tool);
  },

  listWhoReaches: whoReaches,

  listMissingGroups: async ({ settings, services: { store, now } }) => ({
    items: await findMissingGroups(store, settings, now()),
  }),

  async explainAccess(management, { body }) {
    const { settings } = management;
    const { account, source } = await explainedPerson(management, body);
    const connectors = await explainedConnectors(management, body.connector);
    const [only] = connectors;
    if (body.tool !== undefined && body.connector === undefined)
      throw new HttpError(400, 'invalid_request', 'tool: only with a connector');
    return {
      ...(body.connector !== undefined && only
        ? await toolAccess(management, { account, via: source.via, connector: only }, body.tool)
        : {}),
      ...(account.id === '' ? { account: undefined } : {}),
      provider: source.id,
      entitlements: judgeRules(settings, account, source.via).entitlements,
      access: connectors.map((connector) => ({
        ...accessResource(management, connector, account, source.via),
        ...(connector.audience
          ? { audience: judgeRules(settings, account, source.via, connector).audience }
          : {}),
      })),
    };
  },
};

export const refusalHandlers: Handlers<keyof typeof refusalOperations> = {
  async showRefusal({ services: { store } }, { id }) {
    const refusal = await findRefusal(store, id);
    if (!refusal) throw notFound('there is no refusal with this reference');
    const { at, ...person } = refusal;
    return { reference: id, time: isoTime(at), ...person };
  },
};

/** For each connector, what the person gets. */
export async function accessOfPerson(
  management: ManagementContext,
  account: Account,
): Promise<PersonAccess[]> {
  const via = viaOfAccount(account);
  const connectors = await listConnectors(management.services.store);
  return connectors.map((connector) => accessResource(management, connector, account, via));
}

/** The sign-in provider or trusted issuer that described the person. Undefined if the settings no longer have it. */
export function sourceOf(
  { settings }: ManagementContext,
  account: Account,
): IdentitySource | undefined {
  const { providerIssuer, issuer } = account;
  const via = viaOfAccount(account);
  return identitySourcesOf(settings).find(
    (source) => source.via === via && isSameIssuer(source.issuer, providerIssuer ?? issuer),
  );
}

function accessResource(
  { settings, services }: ManagementContext,
  connector: Connector,
  account: Account,
  via: Via,
): PersonAccess {
  const { id, name } = connector;
  return {
    connector: id,
    name,
    ...personAccess(settings, connector, account, { via, now: services.now() }),
  };
}

async function toolAccess(
  { settings, services: { store, now } }: ManagementContext,
  asked: { account: Account; via: Via; connector: Connector },
  tool: string | undefined,
): Promise<ToolAccess> {
  const upstream = findUpstream(settings.upstreams, asked.connector);
  const server =
    upstream && knownServer(settings, upstream, await findKnownTools(store, upstream), now());
  const { access, rules, tools } = explainTools(
    settings,
    { ...asked, server },
    { tool, now: now() },
  );
  return {
    account: asked.account.id,
    connector: asked.connector.id,
    level: access.level,
    ...(access.level === null ? { reason: access.reason } : {}),
    rules,
    tools,
  };
}

type Explained = ApiRequest<'explainAccess'>['body'];

async function explainedPerson(
  management: ManagementContext,
  { account: id, email, groups, provider }: Explained,
): Promise<{ account: Account; source: IdentitySource }> {
  const known = id === undefined ? undefined : await requireAccount(management, id);
  const source =
    provider === undefined && known
      ? sourceOf(management, known)
      : sourceNamed(management, provider, email);
  if (!source) throw new HttpError(400, 'invalid_request', providerExpected(management));
  const unknown: Claims = { name: '', emailVerified: false, groups: [] };
  const { groupsOmitted, ...arrived } = (known && claimsVia(known, source.via)) ?? unknown;
  const claims = {
    ...arrived,
    ...(email === undefined ? {} : { email, emailVerified: true }),
    ...(groups ? { groups } : groupsOmitted ? { groupsOmitted } : {}),
  };
  const { disabledAt } = known ?? {};
  const account: Account = {
    ...claims,
    id: known?.id ?? '',
    issuer: source.issuer,
    subject: known?.subject ?? '',
    signedInAt: known?.signedInAt ?? 0,
    ...(source.via === 'id-jag' ? { vouched: claims } : {}),
    ...(disabledAt === undefined ? {} : { disabledAt }),
  };
  return { account, source };
}

async function requireAccount({ services }: ManagementContext, id: string): Promise<Account> {
  const account = await findAccount(services.store, id);
  if (account && !isGone(account)) return account;
  throw notFound('there is no account with this id');
}

function sourceNamed(
  { settings }: ManagementContext,
  provider: string | undefined,
  email: string | undefined,
): IdentitySource | undefined {
  const sources = identitySourcesOf(settings);
  if (provider !== undefined) return sources.find(({ id }) => id === provider);
  const providers = sources.filter(({ via }) => via === 'sign-in');
  const owner = email === undefined ? undefined : ownerOf({ email }, providers);
  return owner ?? (providers.length === 1 ? providers[0] : undefined);
}

function providerExpected({ settings }: ManagementContext): string {
  const ids = identitySourcesOf(settings).map(({ id }) => id);
  return `provider: expected one of ${ids.join(', ')}`;
}

async function explainedConnectors(
  { services: { store } }: ManagementContext,
  id: string | undefined,
): Promise<Connector[]> {
  if (id === undefined) return listConnectors(store);
  const connector = await findConnector(store, id);
  if (!connector) throw notFound('there is no connector with this id');
  return [connector];
}
