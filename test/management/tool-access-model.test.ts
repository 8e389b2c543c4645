// Random settings, connectors, tokens and machines: explanations agree with what lists show and calls do, and both with a small model that is
// written from the contract.
import * as fc from 'fast-check';
import type { GrantRecord } from '../../src/connections/grant-record.ts';
import { authorizeRequest } from '../../src/gateway/authorize.ts';
import { decide } from '../../src/gateway/authenticate.ts';
import { isReachable } from '../../src/gateway/upstream/filter.ts';
import { requiredBy } from '../../src/gateway/upstream/levels.ts';
import type { Connector } from '../../src/links/connector.ts';
import { loadSettings } from '../../src/settings/load.ts';
import { explainTools, knownServer, openersOf } from '../../src/management/explained-tools.ts';
import type { Account } from '../../src/people/account.ts';
import { levelsUpTo } from '../../src/permission-levels.ts';
import type { Settings } from '../../src/settings/settings.ts';
import type { Upstream } from '../../src/settings/upstreams.ts';
import { type Rights, selectionOf } from '../../src/upstreams/tool-access.ts';
import { variantOfText } from '../../src/upstreams/tool-digest.ts';
import { holdOf, NO_PINS, notedReading, type ToolPins } from '../../src/upstreams/tool-pins.ts';
import { levelRules } from '../../src/upstreams/tool-levels.ts';
import { DEFAULT_LEVELS, LEVELS } from '../support/levels.ts';
import { checkModel, MODEL_TIMEOUT_MS } from '../support/model-run.ts';
import { recordSoak, SOAK } from '../support/soak.ts';

const RUNS = SOAK ? 10_000 : 1500;
const NOW = 1_800_000_000;
const ISSUER = 'https://idp.example';
const NAMES = ['get', 'get_a', 'get_b', 'set_a', 'drop', 'Drop'];
const PATTERNS = ['*', 'get*', '*_a', 'get_*', 'drop', 'Drop', 's*_*a', 'none', 'prompt:p', 'get'];
const GROUPS = ['a', 'b'];

const level = fc.constantFrom(...LEVELS);
const pattern = fc
  .tuple(fc.boolean(), fc.constantFrom(...PATTERNS))
  .map(([takesOut, text]) => (takesOut ? `!${text}` : text));
const tools = fc.option(fc.array(pattern, { minLength: 1, maxLength: 4 }), { nil: undefined });
const world = fc.record({
  declared: fc.array(fc.record({ name: fc.constantFrom(...NAMES), level }), { maxLength: 4 }),
  defaultLevel: level,
  listed: fc.subarray(NAMES),
  rules: fc.array(fc.record({ group: fc.option(fc.constantFrom(...GROUPS)), level, tools }), {
    maxLength: 4,
  }),
  groups: fc.subarray(GROUPS),
  connector: fc.record({ level, tools }),
  machine: fc.record({ level, tools }),
  token: fc.record({ level, tools }),
  toolChanges: fc.constantFrom('follow' as const, 'hold' as const),
  /** What the server listed before, and what has another text since. */
  before: fc.subarray(NAMES, { minLength: 1 }),
  changed: fc.subarray(NAMES),
});
type World = typeof world extends fc.Arbitrary<infer Each> ? Each : never;

const BASE = loadSettings({
  GATEHOUSE_SECRET: 'a root secret of more than 32 characters',
  GATEHOUSE_LOG_LEVEL: 'silent',
});

function settingsOf({
  declared,
  defaultLevel,
  rules,
  toolChanges,
}: World): Settings & { upstreams: [Upstream] } {
  const unique = [...new Map(declared.map((tool) => [tool.name, tool])).values()];
  const upstream = {
    id: 'default',
    name: 'Orders',
    url: 'https://tools.example/mcp',
    tools: unique,
    resources: [],
    prompts: [],
    defaultLevel,
    toolLevels: 'declared',
    toolChanges,
    paused: false,
  } as unknown as Upstream;
  const entitlements = rules.map(({ group, level: given, tools: opened }) => ({
    match: {
      from: { via: 'sign-in' as const, issuers: [ISSUER] },
      ...(group === null ? { anyone: true as const } : { group }),
    },
    level: given,
    ...(opened ? { tools: opened } : {}),
  }));
  return { ...BASE, levels: [...DEFAULT_LEVELS], entitlements, upstreams: [upstream] };
}

// The model

const rank = (id: string) => LEVELS.findIndex((each) => each === id);

function opens(list: readonly string[] | undefined, name: string): boolean {
  if (!list) return true;
  const matches = (text: string) =>
    !text.includes(':') &&
    new RegExp(`^${text.replaceAll('*', '.*').replaceAll('!', '')}$`).test(name);
  const named = list.filter((text) => !text.startsWith('!'));
  const takenOut = list.some((text) => text.startsWith('!') && matches(text));
  return !takenOut && (named.length === 0 || named.some(matches));
}

/** The level that a tool needs; undefined if its name is too similar to that of a declared one. */
function neededFor({ declared, defaultLevel }: World, name: string): string | undefined {
  const entry = declared.findLast((tool) => tool.name === name);
  if (entry) return entry.level;
  const isSimilar = declared.some((tool) => tool.name.toLowerCase() === name.toLowerCase());
  return isSimilar ? undefined : defaultLevel;
}

/** Whether the text that the server lists now was approved, with the first reading. Names that are equal to a model never are. */
function isApproved({ toolChanges, before, changed }: World, name: string): boolean {
  if (toolChanges === 'follow') return true;
  const isAmbiguous = ['drop', 'Drop'].includes(name) && before.filter(isDrop).length > 1;
  return before.includes(name) && !isAmbiguous && !changed.includes(name);
}

const isDrop = (name: string) => name.toLowerCase() === 'drop';

// What the program does

function pinsOf({ toolChanges: mode, before, listed, changed }: World): ToolPins {
  const read = (names: readonly string[], textOf: (name: string) => string) =>
    names.map((name) => ({ name, variant: variantOfText(textOf(name)), isTwice: false }));
  const first = { mode, at: NOW, tools: read(before, () => 'before') };
  const second = {
    mode,
    at: NOW,
    tools: read(listed, (name) => (changed.includes(name) ? 'after' : 'before')),
  };
  return notedReading(notedReading(NO_PINS, first).pins, second).pins;
}

const ACCOUNT_ID = 'person';
const CONNECTOR_ID = 'A'.repeat(22);

function grantOf(scope: string, machine?: GrantRecord['machine']): GrantRecord {
  const accountId = machine ? 'machine:m' : ACCOUNT_ID;
  return {
    connector: CONNECTOR_ID,
    createdAt: NOW,
    grant: {
      accountId,
      clientId: 'app',
      exp: NOW + 1000,
      openid: { scope: levelsUpTo(DEFAULT_LEVELS, scope).join(' ') },
    },
    ...(machine ? { machine } : {}),
  } as unknown as GrantRecord;
}

/** Quicker than an assertion library, because there are so many. */
function requireSame(actual: unknown, expected: unknown, what: string): void {
  if (actual !== expected) throw new Error(`${what}: ${String(actual)}, not ${String(expected)}`);
}

describe('Explanations of tools under random settings', function () {
  this.timeout(MODEL_TIMEOUT_MS);

  it('RSV-14 explanations, who reaches a tool, lists and calls agree with the model', async () => {
    const property = fc.property(world, (random) => {
      const settings = settingsOf(random);
      const [upstream] = settings.upstreams;
      const connector = {
        id: CONNECTOR_ID,
        name: 'Link',
        used: 0,
        uses: [],
        createdAt: NOW,
        ...random.connector,
      } as Connector;
      const account = {
        id: ACCOUNT_ID,
        issuer: ISSUER,
        subject: 'person',
        name: 'Person',
        emailVerified: false,
        groups: random.groups,
        signedInAt: NOW,
      } as Account;
      const catalog = {
        url: upstream.url,
        tools: random.listed.map((name) => ({ name })),
        seenAt: NOW,
        triedAt: NOW,
      };
      const pins = pinsOf(random);
      const server = knownServer(settings, upstream, { catalog, pins }, NOW);
      const isHeld = (name: string) => {
        const pin = new Map(pins.tools).get(name);
        return holdOf(pins, pin, { isNamed: () => true }) !== undefined;
      };
      const rules = levelRules(DEFAULT_LEVELS, upstream, catalog.tools);
      const explained = explainTools(
        settings,
        { account, via: 'sign-in', connector, server },
        { now: NOW },
      );
      const machine = { ...random.machine, connector: CONNECTOR_ID, expiresAt: NOW + 1000 };
      const token = { id: 't', name: 'Token', ...random.token };
      const openers = {
        connectors: [connector],
        tokens: [token],
        machines: [{ id: 'm', name: 'Machine', machine }],
      } as unknown as Parameters<typeof openersOf>[3];
      const callerWith = (scope: string, of?: GrantRecord['machine']) => {
        const caller = decide(
          settings,
          connector,
          {
            accountId: of ? 'machine:m' : ACCOUNT_ID,
            clientId: 'app',
            tokenId: 'x',
            grantId: 'g',
            scope,
          },
          { grant: grantOf(scope, of), account: of ? undefined : account },
        );
        if (typeof caller === 'string') throw new Error(`the caller is refused: ${caller}`);
        return caller;
      };
      const callOf = (caller: Rights, name: string) =>
        authorizeRequest(
          DEFAULT_LEVELS,
          caller,
          requiredBy(rules, { id: 1, method: 'tools/call', params: { name } }),
        ).decision;
      const matching = random.rules.filter(
        ({ group }) => group === null || random.groups.includes(group),
      );
      const best = Math.max(-1, ...matching.map(({ level: given }) => rank(given)));
      const highest = LEVELS[Math.min(best, rank(connector.level))];
      requireSame(explained.access.level, highest ?? null, 'level');
      const callers = levelsUpTo(DEFAULT_LEVELS, highest ?? '').map(
        (granted) => [granted, callerWith(granted)] as const,
      );
      const ofMachine = callerWith(random.machine.level, machine);
      const ofToken: Rights = {
        level: token.level,
        ceiling: token.level,
        minted: true,
        ...selectionOf({ token }),
      };
      for (const [index, name] of random.listed.entries()) {
        const needed = neededFor(random, name);
        const isOpen =
          highest !== undefined &&
          needed !== undefined &&
          rank(highest) >= rank(needed) &&
          opens(connector.tools, name) &&
          isApproved(random, name) &&
          matching.some((rule) => rank(rule.level) >= rank(needed) && opens(rule.tools, name));
        requireSame(explained.tools[index]?.allowed, isOpen, 'explanation');
        const who = openersOf(settings, server, name, openers, NOW);
        const isReached =
          who.connectors.length > 0 &&
          who.rules.some(({ place }) => matching.includes(random.rules[place]!));
        requireSame(isReached, isOpen, 'who');
        const isListed = (caller: Rights) => !isHeld(name) && isReachable(rules, caller, name);
        for (const [granted, caller] of callers) {
          requireSame(isListed(caller), isOpen, 'list');
          const isEnough = needed !== undefined && rank(granted) >= rank(needed);
          // A name that is too similar to another is refused before.
          const decision = isOpen ? (isEnough ? 'allowed' : 'step-up') : 'forbidden';
          if (needed === undefined) continue;
          requireSame(isHeld(name) ? 'forbidden' : callOf(caller, name), decision, 'call');
        }
        requireSame(isListed(ofMachine), who.machines.length > 0, 'machine');
        requireSame(isListed(ofToken), who.tokens.length > 0, 'token');
      }
    });
    await checkModel('explanations of tools', property, RUNS);
    recordSoak({
      what: `${RUNS} random configurations of connectors, rules, machines, tokens and held tools`,
      held: 'explanations, who reaches a tool, lists and calls agree',
    });
  });
});
