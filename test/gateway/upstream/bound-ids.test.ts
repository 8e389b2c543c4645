import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import { addressOf, mint } from '../../links/minted-tokens/minting.ts';
import { connect } from '../../support/connection.ts';
import { call } from '../../support/mcp.ts';
import { connectV1 } from '../../support/upstream/sdk-clients.ts';
import {
  resultFor,
  echo,
  json,
  PING,
  startScriptedUpstream,
  stream,
  toolCall,
} from '../../support/upstream/scripted-upstream.ts';
import { startUpstreamV1 } from '../../support/upstream/sdk-v1.ts';
import { connectPerson, useUpstream } from '../../support/upstream/system.ts';

const INITIALIZE = { jsonrpc: '2.0', id: 1, method: 'initialize', params: {} };

describe('Upstream sessions', () => {
  const behind = useUpstream(startScriptedUpstream);
  const id = randomUUID();
  afterEach(() => behind().upstream.respondWith(echo));

  async function begin(link: string, token: string): Promise<string> {
    behind().upstream.respondWith((_req, res) => {
      res.setHeader('mcp-session-id', id);
      json(res, resultFor(INITIALIZE));
    });
    const session = (await call(link, token, INITIALIZE)).headers.get('mcp-session-id') ?? '';
    behind().upstream.respondWith(echo);
    return session;
  }

  const go = (link: string, token: string, session: string, method = 'POST') =>
    fetch(link, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        'content-type': 'application/json',
        'mcp-session-id': session,
      },
      ...(method === 'POST' ? { body: JSON.stringify(PING) } : {}),
    });

  it('RSV-11 a session works for the caller who opened it, and for no other', async () => {
    const { link, token, connector, connection } = await behind().connected('operations');
    const session = await begin(link, token);
    expect((await go(link, token, session)).status).to.equal(200);
    expect(behind().upstream.received.at(-1)?.headers['mcp-session-id']).to.equal(id);

    const { system } = behind();
    const otherPerson = await connect(system, connector, {
      person: 'grace',
      as: { client: connection.client },
    });
    const otherClient = await connect(system, connector, { as: { browser: connection.browser } });
    const otherLink = await connectPerson(system, 'operations');
    const minted = await mint(system, { level: 'operations' });
    const before = behind().upstream.received.length;
    for (const [at, held] of [
      [link, otherPerson.accessToken],
      [link, otherClient.accessToken],
      [otherLink.link, otherLink.token],
      [addressOf(system), minted.token],
    ] as const)
      for (const method of ['POST', 'GET', 'DELETE'])
        expect((await go(at, held, session, method)).status, method).to.equal(404);
    expect(behind().upstream.received).to.have.length(before);
  });

  it('a session stays with its owner after the owner connects again', async () => {
    const { link, token, connector, connection } = await behind().connected('operations');
    const session = await begin(link, token);
    const again = await connect(behind().system, connector, { as: connection });
    expect((await go(link, again.accessToken, session)).status).to.equal(200);
  });

  it('a made-up session id is not found', async () => {
    const { link, token } = await behind().connected('operations');
    const session = await begin(link, token);
    const before = behind().upstream.received.length;
    const [mark = '', handle = ''] = session.split('.');
    for (const made of [
      '.',
      id,
      `.${id}`,
      `${mark}.`,
      `${mark}.${randomUUID()}`,
      `${mark.slice(0, -1)}.${handle}`,
      `${mark}x.${handle}`,
      session.toUpperCase(),
      `${session}, ${session}`,
    ])
      expect((await go(link, token, made)).status, made).to.equal(404);
    expect(behind().upstream.received).to.have.length(before);
  });

  it('RSV-11 an event id can be resumed at the level it was issued at or a higher one', async () => {
    const { connector, connection, token } = await connectPerson(behind().system, 'full');
    const { link } = connector;
    const lower = await connect(behind().system, connector, {
      level: 'operations',
      as: connection,
    });
    const narrowed = lower.accessToken;
    behind().upstream.respondWith((_req, res) => {
      stream(res, 'id: one\ndata: \n\n');
      res.end();
    });
    const eventFor = async (held: string) =>
      /^id: (.*)$/m.exec((await call(link, held, PING)).text)?.[1] ?? '';
    const [high, low] = [await eventFor(token), await eventFor(narrowed)];
    const resume = async (held: string, last: string) => {
      const headers = { authorization: `Bearer ${held}`, 'last-event-id': last };
      return (await fetch(link, { headers })).status;
    };
    expect(await resume(token, low)).to.equal(200);
    expect(await resume(token, high)).to.equal(200);
    const before = behind().upstream.received.length;
    expect(await resume(narrowed, high)).to.equal(404);
    expect(behind().upstream.received).to.have.length(before);
  });

  it('RSV-11 an event id can be resumed only by its owner', async () => {
    const { link, token, connection, connector } = await behind().connected('operations');
    behind().upstream.respondWith((_req, res) => {
      stream(res, 'id: one\ndata: \n\n');
      res.end();
    });
    const [, event = ''] = /^id: (.*)$/m.exec((await call(link, token, PING)).text) ?? [];
    behind().upstream.respondWith((_req, res) => {
      stream(res);
      res.end();
    });
    const resume = async (held: string, last: string) => {
      const headers = { authorization: `Bearer ${held}`, 'last-event-id': last };
      return (await fetch(link, { headers })).status;
    };
    expect(await resume(token, event)).to.equal(200);
    expect(behind().upstream.received.at(-1)?.headers['last-event-id']).to.equal('one');
    const before = behind().upstream.received.length;
    const other = await connect(behind().system, connector, {
      person: 'grace',
      as: { client: connection.client },
    });
    expect(await resume(other.accessToken, event)).to.equal(404);
    expect(await resume(token, 'one')).to.equal(404);
    // An event id is not a session id.
    expect((await go(link, token, event)).status).to.equal(404);
    expect(behind().upstream.received).to.have.length(before);
  });
});

describe('Upstream request state', () => {
  const behind = useUpstream(startScriptedUpstream);
  afterEach(() => behind().upstream.respondWith(echo));

  async function askedFor(link: string, token: string): Promise<string> {
    const result = { resultType: 'input_required', requestState: 'opaque', inputRequests: {} };
    behind().upstream.respondWith((_req, res) => json(res, resultFor(PING, result)));
    const { text } = await call(link, token, toolCall('whoami'));
    behind().upstream.respondWith(echo);
    return JSON.parse(text).result.requestState;
  }

  const repeat = (link: string, token: string, requestState: unknown) =>
    call(link, token, {
      jsonrpc: '2.0',
      id: 2,
      method: 'tools/call',
      params: { name: 'whoami', requestState },
    });

  it('UPS-09 request state works for its caller, at the same or a higher level', async () => {
    const { system, upstream } = behind();
    const { link, token, connector, connection } = await connectPerson(system, 'full');
    const lower = await connect(system, connector, { level: 'operations', as: connection });
    const [high, low] = [await askedFor(link, token), await askedFor(link, lower.accessToken)];
    for (const state of [high, low]) {
      expect((await repeat(link, token, state)).rpc?.result).to.deep.equal({});
      expect(upstream.received.at(-1)?.body).to.nested.include({
        'params.requestState': 'opaque',
      });
    }
    expect((await repeat(link, lower.accessToken, low)).rpc?.result).to.deep.equal({});
    const other = await connectPerson(system, 'full');
    const otherClient = await connect(system, connector, { as: { browser: connection.browser } });
    const before = upstream.received.length;
    for (const [at, held, state] of [
      [link, lower.accessToken, high],
      [link, otherClient.accessToken, low],
      [other.link, other.token, low],
      [link, token, 'opaque'],
      [link, token, `.opaque`],
      [link, token, 7],
      [link, token, null],
    ] as const) {
      const { status, rpc } = await repeat(at, held, state);
      expect([status, rpc?.error?.code], String(state)).to.deep.equal([200, -32_602]);
    }
    expect(upstream.received).to.have.length(before);
  });
});

describe('Upstream sessions with SDK v1', () => {
  const behind = useUpstream(startUpstreamV1);

  it('a client can end its session, which is then not found', async () => {
    const { link, token } = await behind().connected('analytics');
    const client = await connectV1(link, token);
    const session = client.sessionId() ?? '';
    await client.terminate();
    const headers = { 'mcp-session-id': session };
    expect((await call(link, token, PING, { headers })).status).to.equal(404);
    await client.close();
  });
});
