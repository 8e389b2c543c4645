// Random files that are applied: a dry run names exactly the connections that then can do less, and says when.
import { expect } from 'chai';
import * as fc from 'fast-check';
import { decodeJwt } from 'jose';
import type { Applied } from '../../src/management/resources/apply.ts';
import { type Browser, openBrowser } from '../support/browser.ts';
import {
  type AssertionKey,
  assertionParameters,
  createAssertion,
  generateAssertionKey,
} from '../support/client-assertion.ts';
import { advanceClock, restoreClock } from '../support/clock.ts';
import { connect, REDIRECT_URI } from '../support/connection.ts';
import { requestManagement } from '../support/management-api.ts';
import { callTool } from '../support/mcp.ts';
import { checkModel, MODEL_TIMEOUT_MS } from '../support/model-run.ts';
import { NO_LIMITS } from '../support/no-limits.ts';
import { type Client, discover, refresh, register, requestToken } from '../support/oauth.ts';
import { startSystem, type System } from '../support/system.ts';
import { until } from '../support/until.ts';
import { type ChangingUpstream, startChangingV2 } from '../support/upstream/changing-upstream.ts';

const RUNS = 6;
/** One for each level that a change can take away. */
const TOOLS = [
  { name: 'whoami', level: 'analytics' },
  { name: 'contacts', level: 'admin' },
  { name: 'cards', level: 'full' },
];
const KEYS = ['a', 'b', 'c'];
const PEOPLE = [
  { person: 'ada', app: 'Desk', level: 'full' },
  { person: 'grace', app: 'Phone', level: 'admin' },
] as const;
const MACHINES = 2;
/** Shorter than the lifetime of an access token. */
const SOON_SECONDS = 200;
const DAY = 86_400;

const sometimes = fc.constantFrom(true, false, false);
const tools = fc.constantFrom(
  ['whoami', 'contacts'],
  ['!cards'],
  ['c*'],
  ['wh*', '!*i'],
  ...Array(4),
);
const connector = fc.record({
  isAbsent: sometimes,
  isPaused: sometimes,
  isOnlyForAda: sometimes,
  expires: sometimes,
  level: fc.constantFrom('full', 'full', 'admin', 'analytics'),
  tools,
});
const machine = fc.record({
  isAbsent: sometimes,
  expires: sometimes,
  hasOtherKey: sometimes,
  tools,
});
/** Not made smaller after a failure, because each run takes long. */
const world = fc.noShrink(
  fc.record({
    connectors: fc.array(connector, { minLength: KEYS.length, maxLength: KEYS.length }),
    machines: fc.array(machine, { minLength: MACHINES, maxLength: MACHINES }),
    blocked: fc.constantFrom(undefined, undefined, 'Phone', 'Desk'),
  }),
);
type World = typeof world extends fc.Arbitrary<infer Each> ? Each : never;

const SAME = { isAbsent: false, expires: false, tools: undefined };
const UNCHANGED: World = {
  connectors: KEYS.map(() => ({ ...SAME, isPaused: false, isOnlyForAda: false, level: 'full' })),
  machines: Array.from({ length: MACHINES }, () => ({ ...SAME, hasOtherKey: false })),
  blocked: undefined,
};

/** What a connection can do: the tools that it can call, and `renew`. */
type Abilities = ReadonlySet<string>;
type Held = { what: string; grantId: () => string; abilities: () => Promise<Abilities> };

const inSeconds = (seconds: number) =>
  new Date((Math.floor(Date.now() / 1000) + seconds) * 1000).toISOString();

describe('A dry run of a random file', function () {
  this.timeout(MODEL_TIMEOUT_MS);
  let upstream: ChangingUpstream;
  let system: System;
  let machineKeys: AssertionKey[];
  const clients = new Map<string, Client>();
  const browsers = new Map<string, Browser>();
  const kept = new Map<string, Held>();

  const ask = (method: string, path: string, body?: object) =>
    requestManagement(system, method, path, body);
  const apply = async (file: object, query: string) =>
    (await ask('POST', `/apply?${query}&pruneLimit=99`, file)) as Applied;

  before(async () => {
    upstream = await startChangingV2(TOOLS.map(({ name }) => ({ name })));
    system = await startSystem({
      file: {
        limits: NO_LIMITS,
        entitlements: [{ match: { anyone: true }, level: 'full' }],
        resourceServer: { upstreams: [{ id: 'tools', url: upstream.url, tools: TOOLS }] },
      },
    });
    upstream.trustIssuer(system.auth);
    machineKeys = await Promise.all(
      Array.from({ length: 2 * MACHINES }, () => generateAssertionKey()),
    );
    await until('the tools to be read', async () => {
      const { tools: read } = (await ask('GET', '/upstreams/tools')) as { tools: object[] };
      return read.length === TOOLS.length;
    });
  });
  after(async () => {
    restoreClock();
    await system.stop();
    await upstream.close();
  });

  function fileOf({ connectors, machines, blocked }: World): object {
    return {
      connectors: connectors.flatMap((change, n) => {
        if (change.isAbsent) return [];
        return {
          key: KEYS[n],
          name: `Connector ${n}`,
          level: change.level,
          ...(change.tools ? { tools: change.tools } : {}),
          ...(change.isPaused ? { paused: true } : {}),
          ...(change.isOnlyForAda ? { audience: [{ email: 'ada@example.com' }] } : {}),
          ...(change.expires ? { expiresAt: inSeconds(SOON_SECONDS) } : {}),
        };
      }),
      machines: machines.flatMap((change, n) => {
        const of = connectors[n];
        if (change.isAbsent || of?.isAbsent) return [];
        const used = machineKeys[change.hasOtherKey ? MACHINES + n : n];
        const isShort = change.expires || of?.expires;
        return {
          key: `machine-${n}`,
          name: `Machine ${n}`,
          connector: KEYS[n],
          level: 'admin',
          ...(change.tools ? { tools: change.tools } : {}),
          jwks: { keys: [used?.jwk] },
          expiresAt: inSeconds(isShort ? SOON_SECONDS : DAY),
        };
      }),
      clientRules: blocked === undefined ? [] : [{ key: 'rule', effect: 'block', name: blocked }],
    };
  }

  async function appOf(name: string, link: string): Promise<Client> {
    const known = clients.get(name);
    if (known) return known;
    const { server } = await discover(link);
    const { body } = await register(server, {
      client_name: name,
      redirect_uris: [REDIRECT_URI],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      token_endpoint_auth_method: 'none',
    });
    const id = body.client_id ?? '';
    const client = { id, secret: undefined, method: 'none' as const, redirectUri: REDIRECT_URI };
    clients.set(name, client);
    return client;
  }

  async function callable(link: string, accessToken: string): Promise<string[]> {
    const found = await Promise.all(
      TOOLS.map(async ({ name }) => {
        const { status, rpc } = await callTool(link, accessToken, name, {});
        return status === 200 && rpc?.result && !rpc.result.isError ? [name] : [];
      }),
    );
    return found.flat();
  }

  async function personAt(link: string, wanted: (typeof PEOPLE)[number]): Promise<Held> {
    const { person, app } = wanted;
    const browser = browsers.get(person) ?? openBrowser(system.origins);
    browsers.set(person, browser);
    const client = await appOf(app, link);
    const { server, ...tokens } = await connect(
      system,
      { link },
      { ...wanted, as: { client, browser } },
    );
    let { accessToken, refreshToken } = tokens;
    return {
      what: `${person} at ${link}`,
      grantId: () => String(decodeJwt(accessToken)['grant_id']),
      async abilities() {
        const before = await callable(link, accessToken);
        const { status, body } = await refresh(server, client, refreshToken);
        if (status !== 200) return new Set(before);
        accessToken = body.access_token ?? '';
        refreshToken = body.refresh_token;
        const renewed = await callable(link, accessToken);
        expect(renewed, 'an older token opens no more').to.include.members(before);
        return new Set([...renewed, 'renew']);
      },
    };
  }

  async function machineAt(link: string, id: string, key: AssertionKey): Promise<Held> {
    const { server } = await discover(link);
    const client = { id, secret: undefined, method: 'none' as const, redirectUri: '' };
    const tokenOf = async () => {
      const assertion = assertionParameters(await createAssertion(key, { client, server }));
      const parameters = { grant_type: 'client_credentials', resource: link, ...assertion };
      return (await requestToken(server, client, parameters)).body.access_token;
    };
    let accessToken = (await tokenOf()) ?? '';
    return {
      what: `machine at ${link}`,
      grantId: () => String(decodeJwt(accessToken)['grant_id']),
      async abilities() {
        const before = await callable(link, accessToken);
        const next = await tokenOf();
        accessToken = next ?? accessToken;
        return new Set([...before, ...(next === undefined ? [] : ['renew'])]);
      },
    };
  }

  /** Everybody with the abilities of `UNCHANGED`. */
  async function everybody(): Promise<{ held: Held; before: Abilities }[]> {
    const { connectors, machines } = await apply(fileOf(UNCHANGED), 'prune=all');
    const { items } = (await ask('GET', '/connectors?limit=1000')) as {
      items: { id: string; link: string }[];
    };
    const linkOf = (n: number) => items.find(({ id }) => id === connectors[n]?.id)?.link ?? '';
    const all: { held: Held; before: Abilities }[] = [];
    const hold = async (what: string, open: () => Promise<Held>) => {
      const known = kept.get(what);
      const before = await known?.abilities();
      if (known && before?.has('renew')) {
        all.push({ held: known, before });
        return;
      }
      const held = await open();
      kept.set(what, held);
      all.push({ held, before: await held.abilities() });
    };
    for (const n of KEYS.keys())
      for (const wanted of PEOPLE)
        await hold(`${wanted.person} ${linkOf(n)}`, () => personAt(linkOf(n), wanted));
    for (const [n, { id = '' }] of machines.entries()) {
      const key = machineKeys[n];
      if (key) await hold(`${id} ${n}`, () => machineAt(linkOf(n), id, key));
    }
    return all;
  }

  async function abilitiesOf(held: readonly Held[]): Promise<Abilities[]> {
    const found: Abilities[] = [];
    for (const { abilities } of held) found.push(await abilities());
    return found;
  }

  it('APL-05 names who can do less when it is applied, at once or at an earlier expiry, and nobody else', async () => {
    const property = fc.asyncProperty(world, async (random) => {
      const all = await everybody();
      const held = all.map((each) => each.held);
      const ids = held.map(({ grantId }) => grantId());
      const file = fileOf(random);
      const dry = await apply(file, 'prune=true&dryRun=true');
      const { affected } = await apply(file, 'prune=true');
      expect(affected).to.have.deep.members(dry.affected);
      const atOnce = await abilitiesOf(held);
      advanceClock(SOON_SECONDS + 1);
      const later = await abilitiesOf(held);
      for (const [n, { what }] of held.entries()) {
        const [named, ...again] = affected.filter(({ grantId }) => grantId === ids[n]);
        expect(again, `${what} is named twice`).to.deep.equal([]);
        const endsLater = named?.after.endsAt !== undefined;
        const isLess =
          named !== undefined &&
          (named.lostTools !== undefined ||
            named.after.level !== named.before.level ||
            (!endsLater && named.after.state !== named.before.state));
        const lost = lostBetween(all[n]?.before, atOnce[n]);
        if (lost.length > 0 || !named?.mayLoseUnknown)
          expect(isLess, `${what} lost ${lost.join(', ')}: ${JSON.stringify(named)}`).to.equal(
            lost.length > 0,
          );
        // Of what stops at once, a dry run does not say that it ends later too.
        const stopped = !endsLater && named?.after.state !== named?.before.state;
        if (!stopped)
          expect(endsLater, `${what}: ${JSON.stringify(named)}`).to.equal(
            lostBetween(atOnce[n], later[n]).length > 0,
          );
      }
    });
    await checkModel('dry runs of files', property, RUNS);
  });
});

function lostBetween(before: Abilities = new Set(), after: Abilities = new Set()): string[] {
  return [...before].filter((ability) => !after.has(ability));
}
