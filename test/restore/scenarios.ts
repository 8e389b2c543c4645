// For each kind of item that a replay uses: what it takes away, and how to see that it is still gone.
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { z } from 'zod';
import { findCredential, saveCredential } from '../../src/credentials/credentials.ts';
import { loadSettings } from '../../src/settings/load.ts';
import { openStore } from '../../src/store/open.ts';
import type { Store } from '../../src/store/store.ts';
import type { DECISIONS } from '../../src/restore/decisions.ts';
import { mint, revoke as revokeMinted } from '../links/minted-tokens/minting.ts';
import { openAccountPage, openRaisePage, submitAccountForm } from '../support/account-page.ts';
import { openBrowser, type Person, requirePage } from '../support/browser.ts';
import { advanceClock } from '../support/clock.ts';
import {
  connect,
  type Connection,
  obtainCode,
  redeem,
  requestAuthorization,
} from '../support/connection.ts';
import {
  changeAccount,
  createConnector,
  deleteConnector,
  requestManagement,
  revokeConnector,
  showConnector,
  showGrant,
} from '../support/management-api.ts';
import { callTool, isAccepted } from '../support/mcp.ts';
import { refresh } from '../support/oauth.ts';
import type { System } from '../support/system.ts';
import { PATIENT_TIMEOUTS } from '../support/scale-out/patient-timeouts.ts';

type Decisions = typeof DECISIONS;

/** The kinds of items that a replay uses. */
export type ReplayedEvent = {
  [Event in keyof Decisions]: Decisions[Event] extends { of: readonly string[] } ? Event : never;
}[keyof Decisions];

/** Items that `takeAway` returns are added to the export. */
export type Prepared = {
  takeAway(): Promise<Record<string, unknown>[] | void>;
  /** Throws if what was taken away is back. */
  expectGone(): Promise<void>;
};

export type Scenario = {
  title: string;
  prepare: (system: System, environment: Record<string, string>) => Promise<Prepared>;
};

/** Settings of the people and workloads in the scenarios. */
export const PEOPLE_FILE = {
  authorization: {
    trustedIssuers: [
      {
        id: 'cluster',
        issuer: 'http://localhost:4998',
        workloads: ['paused', 'again', 'ended'].map((id) => ({
          id,
          match: { subject: id },
          connector: 'Club figures',
          level: 'analytics',
        })),
      },
    ],
  },
  developmentIdp: {
    url: 'http://localhost:4003',
    people: ['ada', 'grace', 'alan', 'hedy', 'joan', 'ida', 'emmy'].map((id) => ({
      id,
      name: id,
      email: `${id}@example.com`,
    })),
  },
  entitlements: [{ match: { emailDomain: 'example.com' }, level: 'full' }],
};

const person = (id: string) => id as Person;
const claim = ({ accessToken }: Pick<Connection, 'accessToken'>, name: string) =>
  String(decodeJwt(accessToken)[name]);

/** Neither calls nor refreshes work. */
async function expectEnded({
  link,
  server,
  client,
  accessToken,
  refreshToken,
}: Connection): Promise<void> {
  expect(await isAccepted(link, accessToken)).to.equal(false);
  const { body } = await refresh(server, client, refreshToken);
  expect(body.error).to.be.oneOf(['invalid_grant', 'invalid_client', 'unauthorized_client']);
}

async function connectNew(system: System, who?: string): Promise<Connection> {
  const as = { browser: openBrowser(system.origins) };
  const { link } = await createConnector(system);
  return connect(system, { link }, { ...(who === undefined ? {} : { person: person(who) }), as });
}

const machineSchema = z.looseObject({ id: z.string(), secret: z.string(), link: z.string() });
type Machine = z.output<typeof machineSchema>;

async function createMachine(system: System, more: object = {}): Promise<Machine> {
  const { id } = await createConnector(system);
  const wanted = { name: 'CI', connector: id, level: 'analytics', ...more };
  return machineSchema.parse(await requestManagement(system, 'POST', '/clients', wanted));
}

async function machineToken(system: System, { id, secret, link }: Machine): Promise<string> {
  const response = await fetch(`${system.auth}/oauth/token`, {
    method: 'POST',
    headers: { authorization: `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}` },
    body: new URLSearchParams({ grant_type: 'client_credentials', resource: link }),
  });
  return z.looseObject({ access_token: z.string().default('') }).parse(await response.json())
    .access_token;
}

async function listedRules(system: System): Promise<string[]> {
  const page = z.object({ items: z.array(z.looseObject({ id: z.string() })) });
  return page
    .parse(await requestManagement(system, 'GET', '/client-rules'))
    .items.map(({ id }) => id);
}

/** Processes cache machines. */
const CACHE_SECONDS = 10;

const inDays = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString();
const created = z.looseObject({ id: z.string() });

function endedConnection(
  end: (system: System, connection: Connection) => Promise<unknown>,
  who?: string,
) {
  return async (system: System): Promise<Prepared> => {
    const connection = await connectNew(system, who);
    return {
      takeAway: async () => void (await end(system, connection)),
      expectGone: () => expectEnded(connection),
    };
  };
}

function keptOut() {
  return async (system: System): Promise<Prepared> => {
    const connection = await connectNew(system, 'ida');
    const id = claim(connection, 'grant_id');
    return {
      takeAway: async () =>
        void (await requestManagement(system, 'DELETE', `/grants/${id}?keepOut=true`)),
      async expectGone() {
        await expectEnded(connection);
        const { url } = await requestAuthorization(system, connection);
        const page = requirePage(await connection.browser.visit(url));
        expect([page.status, page.html.includes('keeps this app away')]).to.deep.equal([403, true]);
      },
    };
  };
}

/** A person's credential at an MCP server, which is put into the store, because only a service could give one. */
function changedCredential(event: 'credential_connected' | 'credential_ended', upstream: string) {
  return async (system: System, environment: Record<string, string>): Promise<Prepared> => {
    const account = claim(await connectNew(system), 'sub');
    const inStore = async <R>(work: (store: Store) => Promise<R>): Promise<R> => {
      const { store: address, secret, dataDir } = loadSettings(environment);
      const store = await openStore(address, { secret, dataDir, timeouts: PATIENT_TIMEOUTS });
      return work(store).finally(() => store.close());
    };
    const owner = { account, upstream };
    const key = { kind: 'key' as const, token: 'key-1', scopes: [] };
    const stored = { ...owner, ...key, epoch: 'first', connectedAt: 1 };
    await inStore((store) => saveCredential(store, owner, () => stored));
    return {
      takeAway: async () => [{ event, ...owner, arguments: {} }],
      async expectGone() {
        expect(await inStore((store) => findCredential(store, owner))).to.equal(undefined);
      },
    };
  };
}

/** A rule about workloads, after these actions. */
function changedWorkload(rule: string, actions: readonly string[], state: string) {
  return async (system: System): Promise<Prepared> => ({
    async takeAway() {
      for (const action of actions)
        await requestManagement(system, 'POST', `/workloads/${action}`, { id: `cluster:${rule}` });
    },
    async expectGone() {
      const { items } = z
        .object({ items: z.array(z.looseObject({ id: z.string(), state: z.string() })) })
        .parse(await requestManagement(system, 'GET', '/workloads'));
      expect(items.find(({ id }) => id === `cluster:${rule}`)?.state).to.equal(state);
    },
  });
}

/** TypeScript refuses a kind that is missing here. */
export const SCENARIOS: Record<ReplayedEvent, Scenario> = {
  code_replay: {
    title: 'a connection whose code was used twice stays ended',
    async prepare(system) {
      const code = await obtainCode(system, await createConnector(system));
      const { body } = await redeem(code);
      const { access_token: accessToken = '', refresh_token: refreshToken } = body;
      return {
        async takeAway() {
          advanceClock(2);
          expect((await redeem(code)).status).to.equal(400);
        },
        expectGone: () =>
          expectEnded({
            ...code,
            browser: openBrowser([]),
            accessToken,
            refreshToken,
            scope: undefined,
          }),
      };
    },
  },
  refresh_replay: {
    title: 'a connection whose old refresh token was used again stays ended',
    async prepare(system) {
      const { server, client, ...connection } = await connectNew(system);
      const { body } = await refresh(server, client, connection.refreshToken);
      const next = await refresh(server, client, body.refresh_token);
      const refreshToken = next.body.refresh_token;
      return {
        async takeAway() {
          advanceClock(120);
          await refresh(server, client, connection.refreshToken);
        },
        expectGone: () => expectEnded({ ...connection, server, client, refreshToken }),
      };
    },
  },
  kept_out: {
    title: 'an app that was kept out stays so',
    prepare: keptOut(),
  },
  kept_out_ended: {
    title: 'a connection that ended with an app that was kept out for a while stays ended',
    prepare: endedConnection(async (system, connection) => {
      const id = claim(connection, 'grant_id');
      await requestManagement(system, 'DELETE', `/grants/${id}?keepOut=true`);
      await requestManagement(system, 'POST', `/grants/${id}/allow`);
    }, 'emmy'),
  },
  workload_paused: {
    title: 'a rule about workloads that was paused stays paused',
    prepare: changedWorkload('paused', ['pause'], 'paused'),
  },
  workload_resumed: {
    title: 'a rule about workloads that was paused again stays paused',
    prepare: changedWorkload('again', ['pause', 'resume', 'pause'], 'paused'),
  },
  workload_ended: {
    title: 'a rule about workloads that was ended stays ended',
    prepare: changedWorkload('ended', ['end'], 'ended'),
  },
  grant_ended: {
    title: 'a connection that its person ended stays ended',
    prepare: endedConnection(async (system, connection) => {
      const page = await openAccountPage(system, connection.browser);
      const grant = claim(connection, 'grant_id');
      await submitAccountForm(connection.browser, page, { decision: 'disconnect', grant });
    }),
  },
  level_lowered: {
    title:
      'a connection that its person lowered stays lowered, also if the log says later that an earlier change to a higher level was interrupted',
    async prepare(system) {
      const { link } = await createConnector(system);
      const as = { browser: openBrowser(system.origins) };
      const connection = await connect(system, { link }, { as, level: 'operations' });
      const grant = claim(connection, 'grant_id');
      return {
        async takeAway() {
          const page = await openAccountPage(system, as.browser);
          const choice = { decision: 'lower', grant, level: 'analytics' };
          await submitAccountForm(as.browser, page, choice);
          const item = { event: 'level_lowered', outcome: 'interrupted', grantId: grant };
          return [{ ...item, arguments: { level: 'operations' } }];
        },
        async expectGone() {
          expect(await showGrant(system, grant)).to.include({
            state: 'active',
            level: 'analytics',
          });
          const { server, client, refreshToken } = connection;
          const { body } = await refresh(server, client, refreshToken);
          expect(body.scope).to.include('analytics').and.not.include('operations');
        },
      };
    },
  },
  level_raised: {
    title: 'a connection that its person lowered and raised again has the level of the raise',
    async prepare(system) {
      const { link } = await createConnector(system, { level: 'full' });
      const as = { browser: openBrowser(system.origins) };
      const connection = await connect(system, { link }, { as, level: 'admin' });
      const grant = claim(connection, 'grant_id');
      return {
        async takeAway() {
          const page = await openAccountPage(system, as.browser);
          const choice = { decision: 'lower', grant, level: 'analytics' };
          const lowered = await submitAccountForm(as.browser, page, choice);
          const consent = await openRaisePage(as.browser, lowered, grant);
          await as.browser.submit(consent, { decision: 'approve', level: 'operations' });
        },
        async expectGone() {
          expect(await showGrant(system, grant)).to.include({
            state: 'active',
            level: 'operations',
          });
        },
      };
    },
  },
  connector_revoked: {
    title: 'a revoked connector stays revoked',
    async prepare(system) {
      const connection = await connectNew(system);
      return {
        takeAway: () => revokeConnector(system, claim(connection, 'connector')),
        async expectGone() {
          const { status } = await callTool(
            connection.link,
            connection.accessToken,
            'club_overview',
          );
          expect(status).to.equal(410);
          await expectEnded(connection);
        },
      };
    },
  },
  connector_deleted: {
    title: 'a deleted connector stays unknown',
    async prepare(system) {
      const connection = await connectNew(system);
      const id = claim(connection, 'connector');
      return {
        async takeAway() {
          await revokeConnector(system, id);
          await deleteConnector(system, id);
        },
        async expectGone() {
          const { status } = await callTool(
            connection.link,
            connection.accessToken,
            'club_overview',
          );
          expect(status).to.equal(404);
        },
      };
    },
  },
  connector_changed: {
    title: 'a connector keeps its lower level, smaller audience, earlier end, limit and pause',
    async prepare(system) {
      const emails = ['ada', 'grace', 'alan'].map((id) => ({ email: `${id}@example.com` }));
      const some = await createConnector(system, { level: 'full', audience: emails });
      const everybody = await createConnector(system);
      const unknown = await createConnector(system);
      const ada = await connect(system, some);
      const grace = await connect(system, some, { person: 'grace' });
      await connect(system, everybody, { person: 'alan' });
      const patch = (id: string, body: object) =>
        requestManagement(system, 'PATCH', `/connectors/${id}`, body);
      const expiresAt = inDays(2);
      return {
        async takeAway() {
          await patch(some.id, {
            level: 'analytics',
            maxUses: 20,
            expiresAt,
            tools: ['club_*', 'list_*', '!list_debts'],
            calls: '100/1d',
          });
          await patch(some.id, {
            audience: [emails[0], emails[2]],
            maxUses: 12,
            tools: ['club_*'],
          });
          await patch(everybody.id, { audience: [{ email: 'alan@example.com' }] });
          await patch(unknown.id, { audience: [{ email: 'nobody@example.org' }] });
        },
        async expectGone() {
          const changed = await showConnector(system, some.id);
          expect(changed).to.deep.include({
            level: 'analytics',
            audience: [emails[0], emails[2]],
            maxUses: 12,
            tools: ['club_*'],
            calls: '100/1d',
            expiresAt: new Date(Math.floor(Date.parse(expiresAt) / 1000) * 1000).toISOString(),
          });
          expect(await isAccepted(some.link, grace.accessToken)).to.equal(false);
          expect(await isAccepted(some.link, ada.accessToken)).to.equal(true);
          const limited = await showConnector(system, everybody.id);
          expect(limited).to.deep.include({ audience: [emails[2]] });
          expect(await showConnector(system, unknown.id)).to.include({ state: 'paused' });
        },
      };
    },
  },
  account_disabled: {
    title: 'a disabled person stays disabled, also one who came after the backup',
    async prepare(system) {
      const connection = await connectNew(system, 'grace');
      return {
        async takeAway() {
          await changeAccount(system, claim(connection, 'sub'), 'disable');
          const later = await connectNew(system, 'joan');
          await changeAccount(system, claim(later, 'sub'), 'disable');
        },
        async expectGone() {
          await expectEnded(connection);
          for (const who of ['grace', 'joan']) {
            const refused = await connectNew(system, who).catch(String);
            expect(refused).to.be.a('string');
          }
        },
      };
    },
  },
  account_enabled: {
    title:
      'a person who was disabled and enabled again can connect, and the connections of before stay ended',
    async prepare(system) {
      const connection = await connectNew(system, 'alan');
      const account = claim(connection, 'sub');
      return {
        async takeAway() {
          await changeAccount(system, account, 'disable');
          advanceClock(2);
          await changeAccount(system, account, 'enable');
        },
        async expectGone() {
          await expectEnded(connection);
          const again = await connectNew(system, 'alan');
          expect(await isAccepted(again.link, again.accessToken)).to.equal(true);
        },
      };
    },
  },
  account_forgotten: {
    title: 'a person who was deleted stays deleted, in the audit log too',
    async prepare(system) {
      const connection = await connectNew(system, 'hedy');
      const account = claim(connection, 'sub');
      const page = z.object({ items: z.array(z.looseObject({ event: z.string() })) });
      const approvals = async () => {
        const query = new URLSearchParams({ account, event: 'consent_approved' });
        return page.parse(await requestManagement(system, 'GET', `/audit?${query}`)).items;
      };
      expect((await approvals())[0]).to.have.property('arguments');
      return {
        takeAway: () => changeAccount(system, account, 'forget'),
        async expectGone() {
          await expectEnded(connection);
          const shown = await requestManagement(system, 'GET', `/accounts/${account}`).catch(
            String,
          );
          expect(shown).to.include('404');
          expect((await approvals())[0]).not.to.have.property('arguments');
        },
      };
    },
  },
  backchannel_logout: {
    title: 'a session that the identity provider ended stays ended',
    async prepare(system) {
      const browser = openBrowser(system.origins);
      const { link } = await createConnector(system);
      const connection = await connect(system, { link }, { as: { browser } });
      const account = claim(connection, 'sub');
      return {
        takeAway: async () => [{ event: 'backchannel_logout', account }],
        async expectGone() {
          const { url } = await requestAuthorization(system, { link });
          const visited = browser.visited.length;
          requirePage(await browser.visit(url));
          const origins = browser.visited.slice(visited).map(({ origin }) => origin);
          // The development identity provider remembers the person.
          expect(origins).to.include(system.origins[2]);
          expect(await isAccepted(link, connection.accessToken)).to.equal(true);
        },
      };
    },
  },
  client_revoked: {
    title: 'a revoked app stays revoked',
    prepare: endedConnection((system, { client }) =>
      requestManagement(system, 'POST', '/clients/revoke', { id: client.id }),
    ),
  },
  client_allowed: {
    title:
      'an app that was revoked and allowed again can connect, and its connections of before stay ended',
    async prepare(system) {
      const connection = await connectNew(system);
      const { client, browser, link } = connection;
      return {
        async takeAway() {
          await requestManagement(system, 'POST', '/clients/revoke', { id: client.id });
          await requestManagement(system, 'POST', '/clients/allow', { id: client.id });
        },
        async expectGone() {
          await expectEnded(connection);
          const again = await connect(system, { link }, { as: { browser, client } });
          expect(await isAccepted(link, again.accessToken)).to.equal(true);
        },
      };
    },
  },
  client_blocked: {
    title: 'a blocked name stays blocked',
    async prepare(system) {
      const { id } = await createConnector(system);
      const rule = { name: 'Evil assistant' };
      let blocked = '';
      return {
        async takeAway() {
          const answer = await requestManagement(system, 'POST', '/client-rules', rule);
          blocked = created.parse(answer).id;
        },
        async expectGone() {
          expect(id).not.to.equal('');
          expect(await listedRules(system)).to.include(blocked);
        },
      };
    },
  },
  client_rule_removed: {
    title: 'an app that is no longer allowed stays so, and a block that was lifted stays lifted',
    async prepare(system) {
      const { client } = await connectNew(system);
      await requestManagement(system, 'POST', '/clients/allow', { id: client.id, app: true });
      const [allowed = ''] = await listedRules(system);
      expect(allowed).not.to.equal('');
      let lifted = '';
      return {
        async takeAway() {
          const blocked = await requestManagement(system, 'POST', '/client-rules', {
            name: 'Blocked for a while',
          });
          lifted = created.parse(blocked).id;
          for (const id of [allowed, lifted])
            await requestManagement(system, 'DELETE', `/client-rules/${id}`);
        },
        async expectGone() {
          expect(await listedRules(system)).to.not.include.members([allowed, lifted]);
        },
      };
    },
  },
  credential_connected: {
    title: 'a credential that was replaced is deleted',
    prepare: changedCredential('credential_connected', 'tools'),
  },
  credential_ended: {
    title: 'a credential that ended is deleted',
    prepare: changedCredential('credential_ended', 'other'),
  },
  machine_key_replaced: {
    title: 'the old secret of a machine stays void, and the machine can get a new one',
    async prepare(system) {
      const machine = await createMachine(system);
      const token = await machineToken(system, machine);
      return {
        takeAway: async () =>
          void (await requestManagement(system, 'POST', '/clients/key', { id: machine.id })),
        async expectGone() {
          expect(await isAccepted(machine.link, token)).to.equal(false);
          expect(await machineToken(system, machine)).to.equal('');
          const replaced = await requestManagement(system, 'POST', '/clients/key', {
            id: machine.id,
          });
          const next = machineSchema.parse(replaced);
          advanceClock(CACHE_SECONDS);
          expect(await isAccepted(next.link, await machineToken(system, next))).to.equal(true);
        },
      };
    },
  },
  machine_changed: {
    title: 'a machine keeps its earlier end',
    async prepare(system) {
      const machine = await createMachine(system, { expiresAt: inDays(100) });
      const expiresAt = inDays(3);
      return {
        takeAway: async () =>
          void (await requestManagement(system, 'PATCH', '/clients', {
            id: machine.id,
            expiresAt,
          })),
        async expectGone() {
          const list = z.object({ items: z.array(z.looseObject({ machine: z.unknown() })) });
          const query = new URLSearchParams({ id: machine.id });
          const found = list.parse(await requestManagement(system, 'GET', `/clients?${query}`));
          expect(JSON.stringify(found.items[0])).to.include(expiresAt.slice(0, 19));
        },
      };
    },
  },
  token_revoked: {
    title: 'a revoked token stays revoked',
    async prepare(system) {
      const minted = await mint(system);
      return {
        takeAway: async () => void (await revokeMinted(system, minted.id)),
        async expectGone() {
          expect(await isAccepted(`${system.resource}/mcp`, minted.token)).to.equal(false);
        },
      };
    },
  },
  token_changed: {
    title: 'a minted token keeps its earlier end',
    async prepare(system) {
      const minted = await mint(system, { expiresIn: '30d' });
      const expiresAt = inDays(3);
      return {
        takeAway: async () =>
          void (await requestManagement(system, 'PATCH', `/tokens/${minted.id}`, { expiresAt })),
        async expectGone() {
          const shown = await requestManagement(system, 'GET', `/tokens/${minted.id}`);
          expect(JSON.stringify(shown)).to.include(expiresAt.slice(0, 19));
        },
      };
    },
  },
  signing_key_rotated: {
    title: 'signing keys that were replaced at once stay replaced',
    async prepare(system) {
      const list = z.object({ items: z.array(z.looseObject({ id: z.string() })) });
      const keys = async () =>
        list.parse(await requestManagement(system, 'GET', '/keys')).items.map(({ id }) => id);
      const before = await keys();
      return {
        takeAway: async () => [
          { event: 'signing_key_rotated', reason: 'at_once', time: inDays(0) },
        ],
        async expectGone() {
          expect(await keys())
            .to.have.length(1)
            .and.not.include.members(before);
        },
      };
    },
  },
};
