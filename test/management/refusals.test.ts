import { request as rawRequest } from 'node:http';
import { once } from 'node:events';
import { expect } from 'chai';
import { listConnectors } from '../../src/links/connectors.ts';
import { KEY, type ManagementHost, openManagementHost, request } from './management-host.ts';

const CONNECTORS = '/api/v1/connectors';
const GOOD = { name: 'Ops', level: 'operations' };

describe('refusals of the management host', () => {
  let host: ManagementHost;
  before(async () => {
    host = await openManagementHost();
  });
  after(() => host.close());

  /** Every refusal is JSON with an error code, is not cached, and has stored nothing. */
  async function refused(
    status: number,
    method: string,
    path: string,
    options?: Parameters<typeof request>[3],
  ) {
    const answer = await request(host, method, path, options);
    const { body, headers } = answer;
    expect(answer.status, `${method} ${path} ${JSON.stringify(body)}`).to.equal(status);
    expect(headers.get('content-type')).to.match(/^application\/json/);
    expect(headers.get('cache-control')).to.equal('no-store');
    expect(body['error']).to.match(/^[a-z_]+$/);
    expect(await listConnectors(host.store)).to.deep.equal([]);
    return { headers, description: String(body['error_description']) };
  }

  for (const [title, authorization] of [
    ['no key', ''],
    ['a wrong key', `Bearer ${KEY.slice(0, -1)}x`],
    ['a truncated key', `Bearer ${KEY.slice(0, -1)}`],
    ['the key with a suffix', `Bearer ${KEY}x`],
    ['an empty key', 'Bearer '],
    ['another authentication scheme', `Basic ${Buffer.from(`admin:${KEY}`).toString('base64')}`],
    ['the key without a scheme', KEY],
  ] as const) {
    it(`ADM-05 STK-05 the host refuses ${title} on every path of the API before any other check`, async () => {
      const headers = { Authorization: authorization };
      const records = ['connectors', 'connectors/x', 'tokens', 'tokens/x'];
      const under = [...records, 'keys', 'keys/rotate', 'audit', 'nothing'];
      const paths = ['/api/v1', ...under.map((path) => `/api/v1/${path}`)];
      // Which key is wrong does not depend on the method.
      const methods =
        authorization === '' ? ['GET', 'POST', 'DELETE', 'PATCH', 'OPTIONS'] : ['POST'];
      for (const path of paths) {
        for (const method of methods) {
          const body = method === 'POST' ? '{not json' : undefined;
          const answer = await refused(401, method, path, { headers, body });
          expect(answer.headers.get('www-authenticate')).to.equal('Bearer');
          expect(answer.description).to.match(/management key/);
        }
      }
    });
  }

  it('the host refuses the key in the query, in the body or in a cookie', async () => {
    const headers = { Authorization: '', Cookie: `key=${KEY}; access_token=${KEY}` };
    await refused(401, 'GET', `${CONNECTORS}?key=${KEY}&access_token=${KEY}`, { headers });
    const body = { ...GOOD, access_token: KEY };
    await refused(401, 'POST', CONNECTORS, { headers, body });
  });

  it('ADM-04 the host refuses requests from pages of other origins, with or without the key', async () => {
    const { port } = new URL(host.url);
    for (const origin of [
      'https://evil.example',
      'null',
      'http://127.0.0.1',
      `http://localhost:${port}`,
      `https://127.0.0.1:${port}`,
      `${host.url}.evil.example`,
    ]) {
      await refused(403, 'POST', CONNECTORS, { headers: { Origin: origin }, body: GOOD });
      await refused(403, 'GET', CONNECTORS, { headers: { Origin: origin, Authorization: '' } });
    }
    const own = await request(host, 'GET', CONNECTORS, { headers: { Origin: host.url } });
    expect(own.status).to.equal(200);
  });

  it('ADM-04 the host refuses other Host names', async () => {
    for (const name of ['rebind.example', 'localhost', `localhost:${new URL(host.url).port}`]) {
      expect(await statusForHost(name), name).to.equal(421);
    }
    expect(await statusForHost(new URL(host.url).host)).to.equal(200);
  });

  // fetch sets the Host header itself.
  async function statusForHost(name: string): Promise<number | undefined> {
    const headers = { Host: name, Authorization: `Bearer ${KEY}` };
    const sent = rawRequest(`${host.url}${CONNECTORS}`, { headers, agent: false }).end();
    const [response] = await once(sent, 'response');
    response.resume();
    return response.statusCode;
  }

  it('the host refuses a body that is not JSON', async () => {
    for (const body of ['', '{', '{"name":"Ops",}', 'name=Ops&level=operations']) {
      const { description } = await refused(400, 'POST', CONNECTORS, { body });
      expect(description).to.match(/not JSON/);
    }
  });

  it('ADM-04 the host refuses other content types even if the body is JSON', async () => {
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data']) {
      await refused(415, 'POST', CONNECTORS, { body: GOOD, headers: { 'Content-Type': type } });
    }
  });

  it('the host refuses a body over 64 kB with and without Content-Length', async () => {
    const body = JSON.stringify({ ...GOOD, name: 'x'.repeat(65_000) }).padEnd(66_560);
    await refused(413, 'POST', CONNECTORS, { body });
    const answer = await fetch(`${host.url}${CONNECTORS}`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${KEY}`, 'Content-Type': 'application/json' },
      body: new Blob([body]).stream(),
      duplex: 'half',
    });
    expect(answer.status).to.equal(413);
  });

  for (const [title, wrong, problem] of [
    ['no name', { name: undefined }, /^name: /],
    ['an empty name', { name: '' }, /^name: /],
    ['a blank name', { name: ' \t ' }, /^name: /],
    ['a name of 81 characters', { name: 'x'.repeat(81) }, /^name: 1 to 80/],
    ['a name that is a number', { name: 7 }, /^name: /],
    ['a name with an escape sequence', { name: 'a\u001b[2J' }, /^name: .*visible/],
    ['a name with a right-to-left override', { name: 'a\u202Eb' }, /^name: .*visible/],
    ['a name of two lines', { name: 'a\nb' }, /^name: .*visible/],
    ['a name with a lone surrogate', { name: 'a\ud800' }, /^name: .*visible/],
    ['no level', { level: undefined }, /^level: one of analytics, operations, admin, full$/],
    ['an unknown level', { level: 'root' }, /^level: one of analytics/],
    ['a level in capitals', { level: 'Full' }, /^level: one of analytics/],
    [
      'a suggestion above its level',
      { level: 'operations', suggestedLevel: 'full' },
      /^suggestedLevel: at most the level of the connector$/,
    ],
    ['an unknown suggested level', { suggestedLevel: 'root' }, /^suggestedLevel: one of analytics/],
    ['a limit of 0', { maxUses: 0 }, /^maxUses: a whole number from 1 to/],
    ['a negative limit', { maxUses: -1 }, /^maxUses: /],
    ['a limit of 1.5', { maxUses: 1.5 }, /^maxUses: /],
    ['a limit that is text', { maxUses: '5' }, /^maxUses: /],
    ['a limit that is null', { maxUses: null }, /^maxUses: /],
    ['a limit above 10000', { maxUses: 10_001 }, /^maxUses: /],
    ['a duration without a unit', { expiresIn: '30' }, /^expiresIn: a duration such as/],
    ['a negative duration', { expiresIn: '-1d' }, /^expiresIn: /],
    ['a duration of zero', { expiresIn: '0s' }, /^expiresIn: /],
    ['a duration that is a number', { expiresIn: 30 }, /^expiresIn: /],
    [
      'a time that has passed',
      { expiresAt: '2020-01-01T00:00:00Z' },
      /^expiresAt: a time in the future/,
    ],
    ['a time without a zone', { expiresAt: '2999-01-01T00:00:00' }, /^expiresAt: a time such as/],
    ['a day that does not exist', { expiresAt: '2999-02-30T00:00:00Z' }, /^expiresAt: /],
    ['a time in seconds', { expiresAt: 32_503_680_000 }, /^expiresAt: /],
    ['two expiries', { expiresIn: '1d', expiresAt: '2999-01-01T00:00:00Z' }, /not both/],
    ['an unknown member', { colour: 'red' }, /^unknown: colour/],
    ['a read-only member', { uses: -5 }, /^unknown: uses/],
  ] as const) {
    it(`the host refuses a connector with ${title}`, async () => {
      const body = { ...GOOD, ...wrong };
      const { description } = await refused(400, 'POST', CONNECTORS, { body });
      expect(description).to.match(problem);
    });
  }

  for (const [title, wrong, problem] of [
    [
      'an audience that is text',
      { audience: 'ada@example.com' },
      /^audience: a list of 1 to 50 rules/,
    ],
    ['an empty audience', { audience: [] }, /^audience: a list of 1 to 50 rules.*without it/],
    [
      'an audience of 51 rules',
      { audience: Array.from({ length: 51 }, (_, n) => ({ group: `g${n}` })) },
      /^audience: a list of 1 to 50 rules/,
    ],
    [
      'an empty rule',
      { audience: [{}] },
      /^audience\.0: exactly one of email, emailDomain and group$/,
    ],
    ['a rule that is null', { audience: [null] }, /^audience\.0: exactly one of email/],
    [
      'a rule with a provider only',
      { audience: [{ provider: 'development' }] },
      /^audience\.0: exactly one of/,
    ],
    [
      'a rule with two criteria',
      { audience: [{ group: 'a' }, { group: 'b', emailDomain: 'example.com' }] },
      /^audience\.1: exactly one of email, emailDomain and group$/,
    ],
    [
      'a rule with an unknown member',
      { audience: [{ group: 'a', level: 'full' }] },
      /^unknown: level/,
    ],
    ['a rule for anyone', { audience: [{ anyone: true }] }, /unknown: anyone/],
    [
      'a rule with a wrong address',
      { audience: [{ email: 'ada' }] },
      /^audience\.0\.email: an email address$/,
    ],
    [
      'a rule with an address of 321 characters',
      { audience: [{ email: `${'a'.repeat(309)}@example.com` }] },
      /^audience\.0\.email: an email address$/,
    ],
    [
      'a rule with a wrong domain',
      { audience: [{ emailDomain: '@example.com' }] },
      /^audience\.0\.emailDomain: a domain such as/,
    ],
    [
      'a rule with an empty group',
      { audience: [{ group: '' }] },
      /^audience\.0\.group: 1 to 200 visible/,
    ],
    [
      'a rule with a group of 201 characters',
      { audience: [{ group: 'x'.repeat(201) }] },
      /^audience\.0\.group: 1 to 200/,
    ],
    [
      'a rule with an invisible character',
      { audience: [{ group: 'a\u202Eb' }] },
      /^audience\.0\.group: .*visible/,
    ],
    [
      'rules with unknown providers',
      {
        audience: [
          { group: 'a', provider: 'okta' },
          { group: 'b' },
          { email: 'a@b.example', provider: 'x' },
        ],
      },
      /^audience\.0\.provider: development; audience\.2\.provider: development$/,
    ],
  ] as const) {
    it(`RCN-05 the host refuses a connector with ${title}`, async () => {
      const body = { ...GOOD, ...wrong };
      const { description } = await refused(400, 'POST', CONNECTORS, { body });
      expect(description).to.match(problem);
    });
  }

  it('the refusal of a connector with many problems names all of them', async () => {
    const expiry = { expiresIn: 'soon', expiresAt: '2020-01-01T00:00:00Z' };
    const body = { name: '', level: 'root', maxUses: 0, ...expiry, colour: 'red' };
    const { description } = await refused(400, 'POST', CONNECTORS, { body });
    for (const named of ['name:', 'level:', 'maxUses:', 'expiresIn:', 'expiresAt:', 'colour']) {
      expect(description).to.include(named);
    }
  });

  it('the host refuses bodies that are not objects or contain __proto__', async () => {
    for (const body of ['null', '[]', '"Ops"', '7', '{"__proto__":{"name":"Ops"}}']) {
      await refused(400, 'POST', CONNECTORS, { body });
    }
  });

  it('a refusal does not repeat unusual member names', async () => {
    const body = { ...GOOD, '<img src=x onerror=1>': 1 };
    const { description } = await refused(400, 'POST', CONNECTORS, { body });
    expect(description)
      .to.match(/^unknown/)
      .and.not.include('<');
  });

  it('the host refuses unsupported methods with an Allow header', async () => {
    for (const [path, allow, methods] of [
      [CONNECTORS, 'GET, HEAD, POST', ['PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PROPFIND']],
      [`${CONNECTORS}/AAAAAAAAAAAAAAAAAAAAAA`, 'DELETE, GET, HEAD, PATCH', ['POST', 'PUT']],
      [`${CONNECTORS}/AAAAAAAAAAAAAAAAAAAAAA/delete`, 'POST', ['GET', 'PUT', 'DELETE']],
      ['/api/v1/accounts', 'GET, HEAD', ['POST', 'PUT', 'PATCH', 'DELETE']],
      [`/api/v1/accounts/${'A'.repeat(27)}`, 'GET, HEAD', ['POST', 'PUT', 'DELETE']],
      [`/api/v1/accounts/${'A'.repeat(27)}/disable`, 'POST', ['GET', 'PUT', 'DELETE']],
      ['/api/v1/tokens', 'GET, HEAD, POST', ['PUT', 'PATCH', 'DELETE']],
      [`/api/v1/tokens/${'0'.repeat(32)}`, 'DELETE, GET, HEAD, PATCH', ['POST', 'PUT']],
      ['/api/v1/keys', 'GET, HEAD', ['POST', 'PUT', 'DELETE']],
      ['/api/v1/keys/rotate', 'POST', ['GET', 'PUT', 'DELETE']],
      ['/api/v1/audit', 'GET, HEAD', ['POST', 'PUT', 'DELETE']],
    ] as const) {
      for (const method of methods) {
        const { headers } = await refused(405, method, path);
        expect(headers.get('allow')).to.equal(allow);
      }
    }
  });

  it('the host refuses unknown paths and other spellings of known paths', async () => {
    for (const path of [
      '/',
      '/api',
      '/api/v1',
      '/api/v2/connectors',
      '/API/v1/connectors',
      '/api/v1/Connectors',
      '/api/v1/connectors/',
      '/api//v1/connectors',
      '/%61pi/v1/connectors',
      '/api/v1/%63onnectors',
    ]) {
      await refused(404, 'GET', path);
    }
  });
});
