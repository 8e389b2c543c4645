// RFC 9449.
import { expect } from 'chai';
import { createConnector } from '../../support/management-api.ts';
import { type BoundConnection, callBound, connectBound, createProof } from '../../support/dpop.ts';
import {
  echo,
  event,
  json,
  PING,
  startScriptedUpstream,
  stream,
  toolCall,
} from '../../support/upstream/scripted-upstream.ts';
import { useUpstream } from '../../support/upstream/system.ts';

/** Active calls are revalidated every second. */
const EVENTS = 25;
const BETWEEN_EVENTS_MS = 100;

describe('A DPoP client in front of an upstream', () => {
  const behind = useUpstream(startScriptedUpstream);
  let connection: BoundConnection;
  before(async () => {
    const { system } = behind();
    const connector = await createConnector(system, { level: 'admin' });
    connection = await connectBound(system, connector, { level: 'analytics' });
  });
  afterEach(() => behind().upstream.respondWith(echo));

  it('RSV-06 the upstream learns the caller, and receives neither the token nor the proof', async () => {
    const { key, link: url, accessToken: token } = connection;
    const dpop = await createProof(key, { url, token });
    const more = { dpop, 'mcp-param-proof': `x${dpop}`, 'mcp-param-token': token };
    expect((await callBound(connection, { more }, PING)).status).to.equal(200);
    const { upstream } = behind();
    const { headers, caller } = upstream.received.at(-1) ?? {};
    expect(headers).to.not.have.any.keys('dpop', 'authorization', 'mcp-param-proof');
    expect(upstream.wire()).to.not.include(dpop).and.not.include(token);
    expect(upstream.wire()).to.not.match(/\bdpop\b/i);
    expect(caller).to.not.have.property('cnf');
  });

  it('a call with a wrong proof is not forwarded', async () => {
    const { upstream } = behind();
    const before = upstream.received.length;
    const answer = await callBound(connection, { overrides: { claims: { htm: 'GET' } } }, PING);
    expect(answer.status).to.equal(401);
    expect(upstream.received).to.have.length(before);
  });

  it('DPoP headers of the upstream are not forwarded to the client', async () => {
    behind().upstream.respondWith((_req, res) => {
      res.setHeader('DPoP-Nonce', 'canary');
      res.setHeader('WWW-Authenticate', 'DPoP error="use_dpop_nonce"');
      json(res, { jsonrpc: '2.0', id: 1, result: {} });
    });
    const { status, headers } = await callBound(connection, {}, PING);
    expect(status).to.equal(200);
    expect(headers.has('dpop-nonce')).to.equal(false);
    expect(headers.has('www-authenticate')).to.equal(false);
  });

  it('a stream may last longer than its proof is valid', async () => {
    const notice = event({ jsonrpc: '2.0', method: 'notifications/message', params: {} });
    let timer: NodeJS.Timeout | undefined;
    behind().upstream.respondWith((_req, res) => {
      stream(res, notice);
      let left = EVENTS;
      timer = setInterval(() => {
        left -= 1;
        if (left > 0) res.write(notice);
        else res.end(event({ jsonrpc: '2.0', id: 1, result: {} }));
      }, BETWEEN_EVENTS_MS);
    });
    try {
      const { status, rpc } = await callBound(connection, {}, PING);
      expect([status, rpc?.result]).to.deep.equal([200, {}]);
    } finally {
      clearInterval(timer);
    }
  });

  it('a call above the level is not forwarded, and the challenge uses the DPoP scheme', async () => {
    const { status, headers } = await callBound(connection, {}, toolCall('contacts'));
    const challenge = headers.get('www-authenticate') ?? '';
    expect(status).to.equal(403);
    expect(challenge).to.match(/^DPoP error="insufficient_scope"/);
    expect(challenge).to.match(/scope="admin", algs="ES256 /);
  });
});
