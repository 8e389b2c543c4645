// The rows of the official TypeScript SDKs, registered and with a metadata document.
import { randomUUID } from 'node:crypto';
import * as v2 from '@modelcontextprotocol/client';
import * as v1 from '@modelcontextprotocol/sdk/client/auth-extensions.js';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as TransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { expect } from 'chai';
import { decodeJwt, importPKCS8, SignJWT } from 'jose';
import { createConnector, requestManagement } from '../support/management-api.ts';
import { openBrowser, type AuthorizeOptions } from '../support/browser.ts';
import { advanceClock } from '../support/clock.ts';
import { type Sdk, type SdkClient, SDKS } from '../support/sdk.ts';
import type { System } from '../support/system.ts';
import {
  expectAuthorization,
  expectDiscovery,
  expectNoRegistration,
  expectRegistration,
  expectToken,
} from './expected-traffic.ts';
import { createKeyedMachine, createMachine, expectCall } from './machine-steps.ts';
import { OWN_DOCUMENT, type TestSystems } from './systems.ts';
import type { Row } from './table.ts';
import { type Traffic, watchTraffic } from './traffic.ts';

const NAMES = new Map([
  ['SDK v1', 'TypeScript SDK 1'],
  ['SDK v2, 2025 revisions', 'TypeScript SDK 2, MCP 2025-11-25'],
  ['SDK v2, revision 2026-07-28', 'TypeScript SDK 2, MCP 2026-07-28'],
]);
const CONTACT = ['member_contact', { memberId: 'M0001' }] as const;
const WITHOUT_REFRESH_TOKEN =
  'only while it has no refresh token; with one, it refreshes instead of re-authorizing, and fails';

/** `person` applies to the next authorization. */
type Connected = {
  system: System;
  sdk: SdkClient;
  link: string;
  traffic: Traffic;
  person: { options: AuthorizeOptions };
};

export function sdkRows(systems: () => TestSystems): Row[] {
  return SDKS.flatMap((sdk) => {
    const client = NAMES.get(sdk.name);
    return client === undefined ? [] : [sdkRow(client, sdk, () => systems().system)];
  });
}

function sdkRow(client: string, sdk: Sdk, system: () => System): Row {
  const made: Connected[] = [];
  const open = async (
    clientMetadataUrl?: string,
    options: AuthorizeOptions = { level: 'operations' },
  ) => {
    const connected = await connectWatched(sdk, system(), options, clientMetadataUrl);
    made.push(connected);
    return connected;
  };
  const onBoth = (check: (connected: Connected) => Promise<void> | void) => ({
    prove: async () => {
      for (const connected of [required(made[0]), required(made[1])]) await check(connected);
    },
  });
  return {
    client,
    kind: 'program',
    steps: {
      discover: {
        prove: async () => {
          for (const { traffic, link } of [await open(), await open(OWN_DOCUMENT)])
            expectDiscovery(traffic, link);
        },
      },
      register: { prove: async () => expectRegistration(required(made[0]).traffic) },
      document: { prove: async () => expectNoRegistration(required(made[1]).traffic) },
      authorize: onBoth(({ traffic }) => expectAuthorization(traffic)),
      token: onBoth(({ traffic, sdk: { accessToken } }) => {
        expectToken(traffic);
        expect(accessToken()).to.be.a('string');
      }),
      call: onBoth(async ({ sdk: connected }) => {
        expect(await connected.callTool('club_overview')).to.have.property('members');
        expect(connected.protocolVersion()).to.match(sdk.version);
      }),
      refresh: {
        prove: async () => {
          advanceClock(3601);
          await onBoth(expectRefresh).prove();
        },
      },
      'step-up':
        sdk.name === 'SDK v1'
          ? {
              note: WITHOUT_REFRESH_TOKEN,
              prove: async () =>
                stepUp(await open(undefined, { level: 'operations', stay: false })),
            }
          : onBoth(stepUp),
      revoke: onBoth(endAndReturn),
      key: {
        prove: async () => {
          await expectCall(await connectWithKey(sdk, system()));
          if (sdk.name !== 'SDK v1') await expectCall(await connectWithAssertion(sdk, system()));
        },
      },
      machine: { prove: async () => expectCall(await connectWithSecret(sdk, system())) },
      device: { notOffered: 'it has no device grant' },
    },
    close: async () => {
      for (const { sdk: connected, traffic } of made) {
        traffic.stop();
        await connected.close();
      }
    },
  };
}

async function connectWatched(
  sdk: Sdk,
  system: System,
  options: AuthorizeOptions,
  clientMetadataUrl: string | undefined,
): Promise<Connected> {
  const { link } = await createConnector(system, { level: 'admin' });
  const browser = openBrowser(system.origins);
  const person = { options };
  const traffic = watchTraffic(system.origins);
  const client = await sdk.connect(link, {
    browser: { authorize: (url) => browser.authorize(url, person.options) },
    method: 'none',
    ...(clientMetadataUrl === undefined ? {} : { clientMetadataUrl }),
  });
  return { system, sdk: client, link, traffic, person };
}

async function expectRefresh({ sdk }: Connected): Promise<void> {
  const before = sdk.accessToken();
  expect(await sdk.callTool('club_overview')).to.have.property('members');
  expect(sdk.accessToken()).to.be.a('string').that.does.not.equal(before);
  expect(sdk.signIns()).to.equal(1);
}

/** Calls a tool above the level; the person approves the page unchanged. */
async function stepUp({ sdk, person }: Connected): Promise<void> {
  const { level: _, ...rest } = person.options;
  person.options = rest;
  await expectSignIn(() => sdk.callTool(...CONTACT));
  await sdk.finishSignIn();
  expect(await sdk.callTool(...CONTACT)).to.include.keys('email');
  expect(sdk.signIns()).to.equal(2);
}

/** Ends the connection as an administrator; the next call signs in again and succeeds. */
async function endAndReturn({ sdk, system }: Connected): Promise<void> {
  const { grant_id: grant } = decodeJwt(sdk.accessToken() ?? '');
  await requestManagement(system, 'DELETE', `/grants/${String(grant)}`);
  await expectSignIn(() => sdk.callTool('club_overview'));
  await sdk.finishSignIn();
  expect(await sdk.callTool('club_overview')).to.have.property('members');
}

async function expectSignIn(call: () => Promise<unknown>): Promise<void> {
  const failure = await call().then(
    () => 'none',
    (error: unknown) => (error instanceof Error ? error.constructor.name : String(error)),
  );
  expect(failure).to.equal('UnauthorizedError');
}

function required(connected: Connected | undefined): Connected {
  if (!connected) throw new Error('it is not connected');
  return connected;
}

async function connectWithKey(sdk: Sdk, system: System) {
  const { id: clientId, link, privateKey, algorithm } = await createKeyedMachine(system);
  const options = { clientId, privateKey, algorithm, expectedIssuer: system.auth };
  return sdk.name === 'SDK v1'
    ? connectV1(link, new v1.PrivateKeyJwtProvider(options))
    : connectV2(sdk, link, new v2.PrivateKeyJwtProvider(options));
}

/** With an assertion that was signed elsewhere. */
async function connectWithAssertion(sdk: Sdk, system: System) {
  const { id: clientId, link, privateKey, algorithm } = await createKeyedMachine(system);
  const jwtBearerAssertion = await new SignJWT({ jti: randomUUID() })
    .setProtectedHeader({ alg: algorithm })
    .setIssuer(clientId)
    .setSubject(clientId)
    .setAudience(system.auth)
    .setExpirationTime('2m')
    .sign(await importPKCS8(privateKey, algorithm));
  const options = { clientId, jwtBearerAssertion, expectedIssuer: system.auth };
  return connectV2(sdk, link, new v2.StaticPrivateKeyJwtProvider(options));
}

async function connectWithSecret(sdk: Sdk, system: System) {
  const { id: clientId, secret: clientSecret, link } = await createMachine(system);
  const options = { clientId, clientSecret, expectedIssuer: system.auth };
  return sdk.name === 'SDK v1'
    ? connectV1(link, new v1.ClientCredentialsProvider(options))
    : connectV2(sdk, link, new v2.ClientCredentialsProvider(options));
}

async function connectV1(
  link: string,
  authProvider: v1.ClientCredentialsProvider | v1.PrivateKeyJwtProvider,
) {
  const client = new ClientV1({ name: 'machine', version: '1.0.0' });
  await client.connect(new TransportV1(new URL(link), { authProvider }));
  return client;
}

async function connectV2(
  sdk: Sdk,
  link: string,
  authProvider:
    v2.ClientCredentialsProvider | v2.PrivateKeyJwtProvider | v2.StaticPrivateKeyJwtProvider,
) {
  const mode = sdk.version.test('2026-07-28') ? ({ pin: '2026-07-28' } as const) : 'legacy';
  const client = new v2.Client(
    { name: 'machine', version: '1.0.0' },
    { versionNegotiation: { mode } },
  );
  await client.connect(new v2.StreamableHTTPClientTransport(new URL(link), { authProvider }));
  return client;
}
