// Random settings files: each is refused with issues, or loads. `npm run fuzz` runs it for longer.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import * as fc from 'fast-check';
import { SettingsError } from '../../src/settings/issues.ts';
import { checkModel, MODEL_TIMEOUT_MS } from '../support/model-run.ts';
import {
  DEVELOPMENT,
  load,
  loadInProduction,
  PRODUCTION,
  temporaryDirectory,
} from './settings-file.ts';
import { settingsSchema } from '../../src/settings/schema.ts';
import { z } from 'zod';

const RUNS = 30;

/** No message may contain it. Long enough that nothing contains it by chance. */
const CANARY = 'canary-of-a-secret-0123456789-abcdefghij';

const level = fc.constantFrom('analytics', 'operations', 'admin', 'full', 'read', 'secret', 'Full');
const id = fc.constantFrom('default', 'development', 'one', 'two', 'github', 'login.example.com');
const domain = fc.constantFrom('example.com', 'EXAMPLE.com', 'mail.example.com', 'partner.example');
const issuer = fc.constantFrom(
  'https://login.example.com',
  'https://login.example.com/',
  'https://LOGIN.example.com',
  'https://two.example.com/realm',
  'http://localhost:4003',
);
const secret = fc.constantFrom(CANARY, `${CANARY}-2`, 'short');

/** Of the given members, each is absent half of the time. */
function some<T extends object>(members: { [K in keyof T]: fc.Arbitrary<T[K]> }) {
  return fc.record(members, { requiredKeys: [] });
}

const match = fc.oneof(
  { arbitrary: fc.constant({ anyone: true as const }), weight: 1 },
  {
    arbitrary: fc
      .tuple(
        fc.oneof(
          fc.record({ subject: fc.constantFrom('ada', 'grace') }),
          fc.record({ group: fc.constantFrom('analysts', '') }),
          fc.record({ email: fc.constantFrom('ada@example.com', 'Ada@EXAMPLE.com', 'ada') }),
          fc.record({ emailDomain: domain }),
          fc.record({ organization: fc.constantFrom('example', 'example#12') }),
        ),
        some({ provider: id }),
      )
      .map(([criterion, provider]) => ({ ...criterion, ...provider })),
    weight: 6,
  },
);

const provider = fc
  .tuple(
    fc.record({ issuer, clientId: fc.constantFrom('gatehouse', '') }),
    some({
      id,
      kind: fc.constantFrom('openid', 'github'),
      clientSecret: secret,
      clientSecretFile: fc.constantFrom('missing', '/dev/null'),
      organizations: fc.boolean(),
      emailDomains: fc.array(domain, { maxLength: 2 }),
    }),
  )
  .map(([required, more]) => ({ ...required, ...more }));

const tool = fc.record({ name: fc.constantFrom('read', 'READ', ''), level });
const headers = fc.dictionary(
  fc.constantFrom('authorization', 'X-Key', 'Gatehouse-Caller', 'host', 'bad name'),
  fc.oneof(
    secret,
    fc.record({ env: fc.constant('TOOLS_KEY') }),
    fc.record({ file: fc.constant('no-file') }),
  ),
  { maxKeys: 2 },
);
const upstream = fc
  .tuple(
    fc.record({
      url: fc.constantFrom(
        'https://tools.example.com/mcp',
        'http://127.0.0.1:9000/mcp',
        'http://tools.example.com/mcp',
        'https://user:word@tools.example.com/mcp',
        'https://auth.example.com/mcp',
      ),
    }),
    some({
      headers,
      defaultLevel: level,
      toolLevels: fc.constantFrom('declared', 'annotations'),
      tools: fc.array(tool, { maxLength: 3 }),
      timeout: fc.constantFrom('1s', '2h', '-1s'),
    }),
  )
  .map(([required, more]) => ({ ...required, ...more }));

const levels = fc.array(
  fc
    .tuple(
      fc.record({ id: fc.constantFrom('read', 'write', 'full', 'analytics', 'openid', 'Full') }),
      some({ title: fc.constantFrom('Read', ''), recorded: fc.boolean() }),
    )
    .map(([required, more]) => ({ ...required, ...more })),
  { minLength: 0, maxLength: 4 },
);

const trustedIssuer = fc
  .tuple(
    fc.record({
      issuer,
      clients: fc.constantFrom(['app'], []),
    }),
    some({ id, jwksUri: fc.constantFrom('https://login.example.com/keys', 'http://x/keys') }),
  )
  .map(([required, more]) => ({ ...required, ...more }));

const members: Record<string, fc.Arbitrary<unknown>> = {
  authUrl: fc.constantFrom(
    'https://auth.example.com',
    'http://localhost:4000',
    'https://auth.example.com/x',
  ),
  resourceUrl: fc.constantFrom(
    'https://mcp.example.com',
    'http://localhost:4001',
    'https://auth.example.com',
  ),
  entitlements: fc.array(fc.record({ match, level }), { minLength: 1, maxLength: 4 }),
  managementUrl: fc.constantFrom(
    'http://127.0.0.1:4002',
    'http://10.0.0.1',
    'https://auth.example.com',
  ),
  listen: some({
    auth: fc.constantFrom('0.0.0.0:4000', '127.0.0.1:4000', '4000'),
    resource: fc.constantFrom('0.0.0.0:4001', '0.0.0.0:4000'),
  }),
  roles: fc.subarray(['authorization-server', 'resource-server', 'management'] as const),
  store: fc.constantFrom(
    'sqlite:file.sqlite',
    'redis://redis.example.com',
    `redis://:${CANARY}@redis.example.com`,
    `rediss://user:${CANARY}@redis.example.com:6380`,
    `redis+sentinel://:${CANARY}@a:1,b:2`,
    `other://:${CANARY}@host`,
  ),
  levels,
  proxies: fc.constantFrom(0, 1, 6, '1'),
  identityProvider: provider,
  identityProviders: fc.array(provider, { maxLength: 3 }),
  developmentIdp: fc.record({
    url: fc.constant('http://localhost:4003'),
    people: fc.constant([{ id: 'ada', name: 'Ada Lovelace', email: 'ada@example.com' }]),
  }),
  authorization: some({
    trustedIssuers: fc.array(trustedIssuer, { maxLength: 2 }),
    introspectionClients: fc.array(fc.record({ id, secret }), { maxLength: 2 }),
  }),
  clients: some({
    preRegistered: fc.array(
      fc.record({
        id,
        secret,
        name: fc.constant('App'),
        redirectUris: fc.constant(['https://app.example.com/cb']),
      }),
      { maxLength: 2 },
    ),
    allowedRedirects: fc.subarray([
      'https://a.example/*',
      'http://a.example/cb',
      'cursor://x/y',
      'javascript:x',
    ]),
    metadataDocumentHosts: fc.subarray(['example.com', '10.0.0.1', 'https://a.example/x/']),
  }),
  management: some({ administrators: fc.array(match, { maxLength: 2 }) }),
  resourceServer: some({
    upstream,
    upstreams: fc.array(
      upstream.chain((one) => id.map((own) => ({ ...one, id: own }))),
      { maxLength: 3 },
    ),
  }),
  lifetimes: some({
    accessToken: fc.constantFrom('1h', '0s', '400d'),
    session: fc.constantFrom('1h', 'x'),
  }),
};

/** Every setting by name, so that wrong values and misspelt names occur everywhere. */
const names = Object.keys(
  z.toJSONSchema(settingsSchema, { io: 'input', unrepresentable: 'any' }).properties ?? {},
);
const anything = fc.oneof(
  fc.constant(null),
  fc.boolean(),
  fc.integer(),
  fc.double(),
  fc.constantFrom('', '${X}', '\u0000', '{'),
  fc.array(fc.jsonValue(), { maxLength: 2 }),
  fc.dictionary(
    fc.constantFrom('__proto__', 'constructor', 'id', 'url', 'secret', 'clientSecret'),
    fc.jsonValue(),
    { maxKeys: 3 },
  ),
);
const disturbed = fc.dictionary(
  fc.oneof(
    fc.constantFrom(...names),
    fc.constantFrom('__proto__', 'clientSecret', 'entitlement', 'toString'),
  ),
  anything,
  { maxKeys: 2 },
);

/** Several providers, which most other settings do not go with. */
const several = fc
  .array(provider, { minLength: 2, maxLength: 3 })
  .map((identityProviders) => ({ identityProvider: undefined, identityProviders }));

const changes = fc
  .subarray(Object.keys(members), { maxLength: 4 })
  .chain((keys) =>
    fc.record(Object.fromEntries(keys.map((key) => [key, members[key] as fc.Arbitrary<unknown>]))),
  );

const file = fc
  .tuple(
    fc.constantFrom(DEVELOPMENT, PRODUCTION),
    fc.oneof({ arbitrary: fc.constant({}), weight: 3 }, { arbitrary: several, weight: 1 }),
    changes,
    fc.oneof({ arbitrary: fc.constant({}), weight: 4 }, { arbitrary: disturbed, weight: 1 }),
  )
  .map(([valid, providers, changed, wrong]): object => ({
    ...valid,
    ...providers,
    ...changed,
    ...wrong,
  }));

const variables = fc.record(
  {
    GATEHOUSE_SECRET: secret,
    GATEHOUSE_MANAGEMENT_KEY: secret,
    GATEHOUSE_IDENTITY_PROVIDER_SECRET: secret,
    GATEHOUSE_PREVIOUS_SECRET: secret,
    GATEHOUSE_STORE: fc.constantFrom(`redis://:${CANARY}@host:6379`, `redis://:${CANARY}@ho st`),
    GATEHOUSE_ROLES: fc.constantFrom('all', 'resource-server', 'none'),
    GATEHOUSE_LOG_LEVEL: fc.constantFrom('info', 'loud'),
    TOOLS_KEY: secret,
  },
  { requiredKeys: [] },
);

const environment = fc.oneof(
  { arbitrary: fc.constant({}), weight: 2 },
  { arbitrary: variables, weight: 1 },
);

describe('Random settings', function () {
  this.timeout(MODEL_TIMEOUT_MS);

  it('MOD-01 each file is refused with issues that reveal no secret, or loads', async () => {
    let loaded = 0;
    const dataDir = join(temporaryDirectory(), 'data');
    mkdirSync(dataDir);
    const property = fc.property(file, environment, fc.boolean(), (content, set, production) => {
      try {
        const given = { GATEHOUSE_DATA_DIR: dataDir, ...set } as Record<string, string>;
        (production ? loadInProduction : load)(content, given);
        loaded += 1;
      } catch (error) {
        if (!(error instanceof SettingsError)) throw error;
        expect(error.issues.length).to.be.at.least(1);
        expect(error.message).to.not.include(CANARY);
        for (const { setting, expected } of error.issues) {
          expect(setting).to.not.equal('');
          expect(expected).to.not.equal('');
        }
      }
    });
    await checkModel('settings', property, RUNS);
    expect(loaded).to.be.greaterThan(0);
  });
});
