// How a recorded client finds the endpoints from the connect link (RFC 9728, RFC 8414).
import { expect } from 'chai';
import { z } from 'zod';
import type { Server } from '../support/oauth.ts';
import { HEADERS, message } from './messages.ts';
import type { RecordedClient } from './recorded-clients.ts';
import { challengeOf, type Reply, type Send } from './wire.ts';

export type Found = { server: Server; challenge: string[]; resource: string[]; offered: string[] };

const resourceMetadata = z.looseObject({
  resource: z.string(),
  authorization_servers: z.array(z.string()).min(1),
  scopes_supported: z.array(z.string()),
});

const serverMetadata = z.looseObject({
  issuer: z.string(),
  authorization_endpoint: z.url(),
  token_endpoint: z.url(),
  registration_endpoint: z.url(),
  revocation_endpoint: z.url(),
  jwks_uri: z.url(),
  scopes_supported: z.array(z.string()),
});

/** How the user of a client that does not discover finds the endpoints to enter. */
const BY_HAND = { probes: ['POST'], resource: ['challenge'], needs: {} } as const;

export async function discoverAs(client: RecordedClient, send: Send, link: string): Promise<Found> {
  const { discovery } = client;
  const { probes, resource: ways, needs } = 'notOffered' in discovery ? BY_HAND : discovery;
  const replies = await Promise.all(probes.map((method) => probe(send, link, method, client)));
  const [refused] = replies as [Reply];
  const documents = await Promise.all(
    ways.map((way) => readResource(send, link, way === 'path' ? undefined : refused)),
  );
  const [document] = documents as [(typeof documents)[number]];
  for (const other of documents) expect(other).to.deep.equal(document);
  const server = await readServer(send, document.authorization_servers[0] ?? '', needs);
  return {
    server,
    challenge: challengeOf(refused, 'scope')?.split(' ') ?? [],
    resource: document.scopes_supported,
    offered: server.scopes_supported,
  };
}

async function probe(
  send: Send,
  link: string,
  method: string,
  { protocolVersion }: RecordedClient,
): Promise<Reply> {
  const params = {
    protocolVersion,
    capabilities: {},
    clientInfo: { name: 'probe', version: '1.0.0' },
  };
  const post = { method, headers: HEADERS, body: message('initialize', params) };
  const reply = await send(link, method === 'POST' ? post : { method });
  expect(reply.status, `${method} without a token`).to.equal(401);
  return reply;
}

async function readResource(send: Send, link: string, refused: Reply | undefined) {
  const { origin, pathname } = new URL(link);
  const wellKnown = `${origin}/.well-known/oauth-protected-resource${pathname}`;
  const at = refused ? challengeOf(refused, 'resource_metadata') : wellKnown;
  if (!at) throw new Error('the challenge does not say where the metadata is');
  expect(new URL(at).origin).to.equal(origin);
  const reply = await send(at);
  expect(reply.status, at).to.equal(200);
  const document = resourceMetadata.parse(reply.json());
  expect(document.resource).to.equal(new URL(link).href);
  return document;
}

async function readServer(send: Send, issuer: string, needs: Record<string, unknown>) {
  const reply = await send(`${issuer}/.well-known/oauth-authorization-server`);
  expect(reply.status).to.equal(200);
  const metadata = serverMetadata.parse(reply.json());
  expect(metadata.issuer).to.equal(issuer);
  for (const [name, value] of Object.entries(needs)) {
    if (Array.isArray(value)) expect(metadata[name], name).to.include.members(value);
    else expect(metadata[name], name).to.equal(value);
  }
  return metadata;
}
