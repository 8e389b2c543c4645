import { expect } from 'chai';
import { registerClient } from '../support/connection.ts';
import { meetsDeadline } from '../support/deadlines.ts';
import { createConnector } from '../support/management-api.ts';
import { callTool } from '../support/mcp.ts';
import { authorizeUrl, discover, requestToken } from '../support/oauth.ts';
import { type System, useSystem } from '../support/system.ts';

describe('The time that hostile requests take', () => {
  const system = useSystem();

  it('DOS-05 deeply nested JSON gets a response within two seconds', async () => {
    for (const open of ['[', '{"a":']) {
      const depth = Math.floor(60_000 / open.length);
      const nested = `{"redirect_uris":["http://localhost/cb"],"x":${open.repeat(depth)}`;
      await meetsDeadline('hostileRequest', async () => {
        expect((await post(system(), nested)).status).to.equal(400);
      });
    }
    const closed = `${'['.repeat(20_000)}${']'.repeat(20_000)}`;
    const whole = `{"redirect_uris":["http://localhost/cb"],"jwks":${closed}}`;
    await meetsDeadline('hostileRequest', async () => {
      expect((await post(system(), whole)).status).to.be.oneOf([201, 400]);
    });
  });

  it('DOS-05 an oversized authorization request gets a response within two seconds', async () => {
    const { link } = await createConnector(system());
    const { server } = await discover(link);
    const client = await registerClient(server);
    const many = Object.fromEntries(Array.from({ length: 101 }, (_, n) => [`p${n}`, 'x']));
    for (const sent of [
      { state: 's'.repeat(8192) },
      many,
      { resource: Array(1000).fill('a') },
      { scope: Array(5000).fill('s').join(' ') },
    ])
      await meetsDeadline('hostileRequest', async () => {
        const { url } = authorizeUrl(server, client, { resource: link, ...sent });
        expect((await fetch(url, { redirect: 'manual' })).status).to.be.oneOf([400, 414]);
      });
  });

  it('DOS-05 an oversized token request gets a response within two seconds', async () => {
    const { link } = await createConnector(system());
    const { server } = await discover(link);
    const client = await registerClient(server);
    const many = Object.fromEntries(Array.from({ length: 3000 }, (_, n) => [`p${n}`, 'x']));
    for (const sent of [
      many,
      { resource: Array(1000).fill('a') },
      { resource: Array(5000).fill('a') },
      { scope: Array(5000).fill('s').join(' ') },
    ])
      await meetsDeadline('hostileRequest', async () => {
        const parameters = { grant_type: 'refresh_token', refresh_token: 'unknown', ...sent };
        const { status } = await requestToken(server, client, parameters);
        expect(status).to.be.oneOf([400, 413]);
      });
  });

  it('DOS-06 a token of more than 8 kB gets 401 within two seconds', async () => {
    const { link } = await createConnector(system());
    await meetsDeadline('hostileRequest', async () => {
      expect((await callTool(link, 'x'.repeat(9000), 'club_overview')).status).to.equal(401);
    });
  });
});

function post({ auth }: System, body: string): Promise<Response> {
  const headers = { 'content-type': 'application/json' };
  return fetch(`${auth}/oauth/register`, { method: 'POST', headers, body });
}
