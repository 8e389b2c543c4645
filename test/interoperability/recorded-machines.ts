// Recorded clients that also connect without a person (client credentials).
import { randomUUID } from 'node:crypto';
import { OAuthTokensSchema } from '@modelcontextprotocol/sdk/shared/auth.js';
import { expect } from 'chai';
import { SignJWT } from 'jose';
import { authenticated, type Client } from '../support/oauth.ts';
import type { System } from '../support/system.ts';
import { CLIENT_KEY, publishedKeys } from './client-keys.ts';
import { createMachine, createMachineWith } from './machine-steps.ts';
import type { RecordedClient } from './recorded-clients.ts';
import { callStep } from './recorded-connection.ts';
import { ASSERTION_TYPE, type ClientRun, discoverLink } from './recorded-steps.ts';

export async function connectBySecret(system: System, recorded: RecordedClient): Promise<void> {
  const { id, secret, link } = await createMachine(system);
  const client: Client = { id, secret, method: 'client_secret_basic', redirectUri: '' };
  const run = await runOf(system, recorded, { id, link });
  await connect(run, authenticated(client, parametersOf(run)));
}

/** The request has no `client_id`: the assertion names the client. */
export async function connectByKey(system: System, recorded: RecordedClient): Promise<void> {
  const { id, link } = await createMachineWith(system, { jwks: await publishedKeys() });
  const run = await runOf(system, recorded, { id, link });
  const authentication = {
    client_assertion: await assertionOf(run, id),
    client_assertion_type: ASSERTION_TYPE,
  };
  await connect(run, { body: new URLSearchParams({ ...parametersOf(run), ...authentication }) });
}

type Request = { headers?: Record<string, string>; body: URLSearchParams };

function runOf(
  system: System,
  recorded: RecordedClient,
  { id, link }: { id: string; link: string },
): Promise<ClientRun> {
  return discoverLink(system, recorded, { fixed: { id, redirectUri: '', secret: false } }, link);
}

function parametersOf({ found, link }: ClientRun) {
  const scope = found.challenge.join(' ');
  return { grant_type: 'client_credentials', resource: link, scope };
}

async function connect(run: ClientRun, request: Request): Promise<void> {
  const { token_endpoint: endpoint } = run.found.server;
  const { status, text, json } = await run.send(endpoint, { method: 'POST', ...request });
  expect(status, text).to.equal(200);
  const { access_token: accessToken } = OAuthTokensSchema.parse(json());
  run.tokens = { accessToken, refreshToken: '', scope: [] };
  await callStep(run);
}

async function assertionOf({ recorded, found }: ClientRun, id: string): Promise<string> {
  const { seconds, audience } = recorded.machine?.assertion ?? {};
  const { issuer } = found.server;
  const { privateKey } = await CLIENT_KEY;
  return new SignJWT({ jti: randomUUID() })
    .setProtectedHeader({ alg: 'RS256', typ: 'JWT' })
    .setIssuer(id)
    .setSubject(id)
    .setAudience(audience === 'parsed issuer' ? new URL(issuer).href : issuer)
    .setIssuedAt()
    .setExpirationTime(`${seconds} seconds`)
    .sign(privateKey);
}
