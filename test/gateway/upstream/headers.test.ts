import { once } from 'node:events';
import { request } from 'node:http';
import { expect } from 'chai';
import { call, postBody } from '../../support/mcp.ts';
import { rawRequest } from '../../support/raw-request.ts';
import {
  resultFor,
  echo,
  json,
  PING,
  startScriptedUpstream,
  toolCall,
} from '../../support/upstream/scripted-upstream.ts';
import { useUpstream } from '../../support/upstream/system.ts';

const CANARY = 'canary-7f3a';

describe('Requests to the upstream', () => {
  const behind = useUpstream(startScriptedUpstream);
  afterEach(() => behind().upstream.respondWith(echo));

  /** Sends headers exactly as given, in this order, including duplicates. */
  async function sendRaw(headers: [string, string][], path = ''): Promise<number> {
    const { link } = await behind().connected('analytics');
    const url = new URL(link + path);
    const sent = request({
      host: url.hostname,
      port: url.port,
      path: url.pathname + url.search,
      method: 'POST',
    });
    sent.removeHeader('connection');
    const raw: [string, string][] = [
      ['Host', url.host],
      ['Content-Type', 'application/json'],
      ['Accept', 'application/json, text/event-stream'],
      ...headers,
    ];
    for (const name of new Set(raw.map(([each]) => each.toLowerCase())))
      sent.setHeader(
        name,
        raw.filter(([each]) => each.toLowerCase() === name).map(([, value]) => value),
      );
    sent.end(JSON.stringify(PING));
    const [response] = await once(sent, 'response');
    response.resume();
    await once(response, 'end');
    return response.statusCode;
  }

  it('an Accept header for any type, or none, is sent as both types, and an empty id as none', async () => {
    const { link, token } = await behind().connected('analytics');
    const headers = {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      'mcp-session-id': '',
      'last-event-id': '',
    };
    const { host, pathname: path } = new URL(link);
    for (const accept of [undefined, '', '*/*', 'application/*', 'text/*, application/*;q=0.9']) {
      const { status } = await rawRequest(link, {
        method: 'POST',
        path,
        headers: { host, ...headers, ...(accept === undefined ? {} : { accept }) },
        chunks: [JSON.stringify(PING)],
      });
      expect(status, accept).to.equal(200);
      const sent = behind().upstream.received.at(-1)?.headers;
      expect(sent?.accept, accept).to.equal('application/json, text/event-stream');
      expect(sent).to.not.have.any.keys('mcp-session-id', 'last-event-id');
    }
    await call(link, token, PING, { headers: { accept: 'application/json' } });
    expect(behind().upstream.received.at(-1)?.headers.accept).to.equal('application/json');
  });

  it('RSV-06 the token, cookies and forwarding headers are not forwarded', async () => {
    const { token } = await behind().connected('analytics');
    const before = behind().upstream.received.length;
    const status = await sendRaw(
      [
        ['AUTHORIZATION', `Bearer ${token}`],
        ['Cookie', `session=${CANARY}`],
        ['cOOkie', `__Host-session=${CANARY}`],
        ['Forwarded', `for=${CANARY}`],
        ['X-Forwarded-For', CANARY],
        ['x-FORWARDED-host', CANARY],
        ['X-Forwarded-Proto', CANARY],
        ['X-Real-IP', CANARY],
        ['X-Original-URL', `/${CANARY}`],
        ['Proxy-Authorization', `Basic ${CANARY}`],
        ['Connection', 'authorization, cookie, gatehouse-caller, close'],
        ['Keep-Alive', `timeout=${CANARY}`],
        ['TE', 'trailers'],
        ['Origin', behind().system.resource],
        ['Referer', `https://example.com/${CANARY}`],
        ['X-Anything', CANARY],
        ['Mcp-Param-Token', token],
        ['Mcp-Param-Region', 'eu'],
        ['Gatehouse-Caller', CANARY],
        ['GATEHOUSE-CALLER', token],
      ],
      `?access_token=${CANARY}`,
    );
    expect(status).to.equal(200);
    const { upstream } = behind();
    expect(upstream.received).to.have.length(before + 1);
    expect(upstream.wire()).to.not.include(CANARY).and.not.include(token);
    const sent = upstream.received.at(-1);
    expect(Object.keys(sent?.headers ?? {})).to.have.members([
      'host',
      'connection',
      'content-length',
      'content-type',
      'accept',
      'accept-encoding',
      'user-agent',
      'gatehouse-caller',
    ]);
    expect(sent?.headers['host']).to.equal(new URL(upstream.url).host);
    expect(sent?.url).to.equal('/mcp');
  });

  it('a request with two tokens forwards neither', async () => {
    const { token } = await behind().connected('analytics');
    const { token: other } = await behind().connected('operations');
    const before = behind().upstream.received.length;
    const statuses = [
      await sendRaw([
        ['Authorization', `Bearer ${token}`],
        ['authorization', `Bearer ${other}`],
      ]),
      await sendRaw([
        ['Authorization', `Bearer ${other}`],
        ['authorization', `Bearer ${token}`],
      ]),
    ];
    for (const status of statuses) expect(status).to.be.oneOf([200, 400, 401]);
    const passed = statuses.filter((status) => status === 200).length;
    expect(behind().upstream.received).to.have.length(before + passed);
    expect(behind().upstream.wire()).to.not.include(token).and.not.include(other);
  });

  it('MCP headers are forwarded', async () => {
    const { link, token } = await behind().connected('analytics');
    const headers = {
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'tools/call',
      'mcp-name': `=?base64?${Buffer.from('whoami').toString('base64')}?=`,
      'mcp-param-region': 'eu',
    };
    const message = toolCall('whoami', 1, { region: 'eu' });
    expect((await call(link, token, message, { headers })).status).to.equal(200);
    expect(behind().upstream.received.at(-1)?.headers).to.include(headers);
  });

  it('headers about a message are not forwarded without one', async () => {
    const { link, token } = await behind().connected('analytics');
    const hints = { 'mcp-method': 'tools/call', 'mcp-name': 'cards', 'mcp-param-region': 'eu' };
    for (const method of ['GET', 'DELETE']) {
      const headers = { authorization: `Bearer ${token}`, ...hints };
      await (await fetch(link, { method, headers })).text();
      expect(behind().upstream.received.at(-1)?.method).to.equal(method);
      expect(behind().upstream.received.at(-1)?.headers).to.not.have.any.keys(Object.keys(hints));
    }
  });

  it('UPS-07 headers that contradict the method or the tool in the body are refused', async () => {
    const { link, token } = await behind().connected('analytics');
    const before = behind().upstream.received.length;
    const wrong: Record<string, string>[] = [
      { 'mcp-method': 'ping' },
      { 'mcp-name': 'wait' },
      { 'mcp-name': `=?base64?${Buffer.from('wait').toString('base64')}?=` },
      // Ambiguous: not canonical base64, not UTF-8.
      { 'mcp-name': `=?base64?${Buffer.from('whoami').toString('base64')}=?=` },
      { 'mcp-name': '=?base64?d2hvYW1p!?=' },
      { 'mcp-name': '=?base64?/w==?=' },
    ];
    for (const headers of wrong) {
      const { status, rpc } = await call(link, token, toolCall('whoami'), { headers });
      expect([status, rpc?.error?.code], JSON.stringify(headers)).to.deep.equal([400, -32_020]);
    }
    expect(behind().upstream.received).to.have.length(before);
  });

  const encoded = (text: string) => `=?base64?${Buffer.from(text).toString('base64')}?=`;
  const given = { region: 'eu', member_id: 'M1', count: 7, dry: false, name: 'Zoë', big: 1.5 };
  const askWith = async (
    headers: Record<string, string>,
    tool = 'whoami',
    values: object = given,
  ) => {
    const { link, token } = await behind().connected('analytics');
    return call(link, token, toolCall(tool, 1, values), { headers });
  };

  it('UPS-06 parameter headers that match their argument are forwarded', async () => {
    for (const headers of [
      { 'mcp-param-region': 'eu' },
      { 'mcp-param-region': encoded('eu') },
      { 'mcp-param-name': encoded('Zoë') },
      { 'mcp-param-member_id': 'M1' },
      { 'mcp-param-member-id': 'M1' },
      { 'mcp-param-count': '7' },
      { 'mcp-param-count': '7.0' },
      { 'mcp-param-dry': 'false' },
    ] as Record<string, string>[]) {
      expect((await askWith(headers)).status, JSON.stringify(headers)).to.equal(200);
      expect(behind().upstream.received.at(-1)?.headers).to.include(headers);
    }
  });

  it('UPS-06 parameter headers that contradict their argument are refused', async () => {
    const before = behind().upstream.received.length;
    for (const headers of [
      { 'mcp-param-region': 'us' },
      { 'mcp-param-region': 'EU' },
      { 'mcp-param-region': '' },
      { 'mcp-param-region': 'eu, us' },
      { 'mcp-param-region': encoded('us') },
      { 'mcp-param-region': `${encoded('eu').slice(0, -3)}==?=` },
      { 'mcp-param-member-id': 'M2' },
      { 'mcp-param-name': 'Zoë' },
      { 'mcp-param-count': '0x7' },
      { 'mcp-param-dry': '' },
    ] as Record<string, string>[]) {
      const { status, rpc } = await askWith(headers);
      expect([status, rpc?.error?.code], JSON.stringify(headers)).to.deep.equal([400, -32_020]);
    }
    expect(behind().upstream.received).to.have.length(before);
  });

  it('UPS-06 parameter headers without an argument are dropped', async () => {
    const header = { 'mcp-param-tenant': 'eu' };
    const { link, token } = await behind().connected('analytics');
    const batch = [toolCall('whoami', 1, { tenant: 'eu' }), { ...PING, id: 2 }];
    await askWith(header);
    await call(
      link,
      token,
      { ...PING, params: { tenant: 'eu', arguments: { tenant: 'eu' } } },
      { headers: header },
    );
    await call(link, token, batch, { headers: header });
    for (const { headers } of behind().upstream.received.slice(-3))
      expect(headers).to.not.have.property('mcp-param-tenant');
  });

  it("UPS-06 parameter headers of a tool's listed schema are forwarded from where the schema declares them", async () => {
    const { link, token } = await behind().connected('analytics');
    const target = {
      type: 'object',
      properties: { id: { type: 'string', 'x-mcp-header': 'Member' } },
    };
    const region = { type: 'string', 'x-mcp-header': 'Region' };
    const inputSchema = { type: 'object', properties: { target, place: region } };
    behind().upstream.respondWith((_req, res) =>
      json(res, resultFor(PING, { tools: [{ name: 'wait', inputSchema }] })),
    );
    await call(link, token, { ...PING, method: 'tools/list' });
    behind().upstream.respondWith(echo);
    const values = { target: { id: 'M1' }, place: 'eu', member: 'M2', region: 'us', dry: 'x' };
    const right = { 'mcp-param-member': 'M1', 'mcp-param-region': 'eu' };
    expect((await askWith({ ...right, 'mcp-param-dry': 'x' }, 'wait', values)).status).to.equal(
      200,
    );
    expect(behind().upstream.received.at(-1)?.headers).to.include(right);
    // The upstream expects no header that its schema does not declare.
    expect(behind().upstream.received.at(-1)?.headers).to.not.have.property('mcp-param-dry');
    const before = behind().upstream.received.length;
    for (const header of ['mcp-param-member', 'mcp-param-region'])
      expect((await askWith({ [header]: 'M2' }, 'wait', values)).rpc?.error?.code).to.equal(
        -32_020,
      );
    const absent = { target: {}, place: null };
    for (const header of ['mcp-param-member', 'mcp-param-region'])
      expect((await askWith({ [header]: 'null' }, 'wait', absent)).rpc?.error?.code).to.equal(
        -32_020,
      );
    expect(behind().upstream.received).to.have.length(before);
  });

  it('UPS-28 a list for one caller decides about no header of another, which is dropped if it differs', async () => {
    const [one, other] = [
      await behind().connected('full'),
      await behind().connected('analytics'),
    ] as const;
    const place = { type: 'string', 'x-mcp-header': 'Place' };
    const inputSchema = { type: 'object', properties: { place } };
    behind().upstream.respondWith((_req, res) =>
      json(res, resultFor(PING, { tools: [{ name: 'whoami', inputSchema }] })),
    );
    await call(one.link, one.token, { ...PING, method: 'tools/list' });
    behind().upstream.respondWith(echo);
    const message = toolCall('whoami', 1, { place: 'eu' });
    const statusWith = async ({ link, token }: typeof one, header: string) =>
      (await call(link, token, message, { headers: { 'mcp-param-place': header } })).status;
    expect(await statusWith(one, 'us')).to.equal(400);
    expect(await statusWith(other, 'us')).to.equal(200);
    expect(behind().upstream.received.at(-1)?.headers).to.not.have.property('mcp-param-place');
    expect(await statusWith(other, 'eu')).to.equal(200);
    expect(behind().upstream.received.at(-1)?.headers).to.include({ 'mcp-param-place': 'eu' });
  });

  it('UPS-07 a request of revision 2026-07-28 without the headers that mirror the body is refused', async () => {
    const { link, token } = await behind().connected('full');
    const before = behind().upstream.received.length;
    const version = { 'mcp-protocol-version': '2026-07-28' };
    const _meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' };
    const modern = { ...toolCall('whoami'), params: { name: 'whoami', _meta } };
    const both = { 'mcp-method': 'tools/call', 'mcp-name': 'whoami' };
    for (const [message, headers] of [
      [toolCall('whoami'), version],
      [toolCall('whoami'), { ...version, 'mcp-method': 'tools/call' }],
      [toolCall('whoami'), { ...version, 'mcp-name': 'whoami' }],
      [{ ...PING, method: 'tools/list' }, version],
      [modern, { ...version, 'mcp-protocol-version': '2026-09-01', ...both }],
    ] as const) {
      const { status, rpc } = await call(link, token, message, { headers });
      expect([status, rpc?.error?.code], JSON.stringify(headers)).to.deep.equal([400, -32_020]);
    }
    expect(behind().upstream.received).to.have.length(before);
    for (const message of [toolCall('whoami'), modern])
      expect(
        (await call(link, token, message, { headers: { ...version, ...both } })).status,
      ).to.equal(200);
    const notice = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } };
    expect((await call(link, token, notice, { headers: version })).status).to.equal(202);
  });

  it('numbers are forwarded with every digit, and of duplicate members only the validated one is forwarded', async () => {
    const { link, token } = await behind().connected('analytics');
    const big = '12345678901234567890';
    const response = await postBody(
      link,
      token,
      `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"cards","name":"whoami","arguments":{"id":${big}}}}`,
    );
    expect(response.status).to.equal(200);
    const sent = behind().upstream.wire().split('\n').at(-1);
    expect(sent).to.include(`"id":${big}`).and.include('"name":"whoami"').and.not.include('cards');
  });

  it('an ambiguous call is refused', async () => {
    const { link, token } = await behind().connected('analytics');
    const before = behind().upstream.received.length;
    const params = { name: 'whoami', Name: 'cards', arguments: {} };
    const { status } = await call(link, token, { ...toolCall('whoami'), params });
    expect(status).to.equal(400);
    const second = { ...toolCall('whoami'), Method: 'tools/call', Params: { name: 'cards' } };
    expect((await call(link, token, second)).status).to.equal(200);
    expect(JSON.stringify(behind().upstream.received.at(-1)?.body)).to.not.include('cards');
    expect(behind().upstream.received).to.have.length(before + 1);
  });

  it('arguments and ids whose member name some parsers match differently are refused', async () => {
    const { link, token } = await behind().connected('full');
    const before = behind().upstream.received.length;
    const ask = (method: string, params: object) =>
      call(link, token, { jsonrpc: '2.0', id: 1, method, params });
    const named = { name: 'cards', arguments: { member: 'M1' } };
    // The long s and the Kelvin sign equal S and K in parsers that fold case by Unicode.
    for (const other of ['Arguments', 'ARGUMENTS', 'argument\u017f']) {
      const { status, rpc } = await ask('tools/call', { ...named, [other]: { member: 'M2' } });
      expect([status, rpc?.error?.code], other).to.deep.equal([400, -32_600]);
    }
    for (const other of ['TaskID', 'ta\u017fkId', 'tas\u212aId'])
      expect((await ask('tasks/get', { taskId: '1', [other]: '2' })).status, other).to.equal(400);
    expect(behind().upstream.received).to.have.length(before);
  });

  it('a tool name that is not a string is refused', async () => {
    const { link, token } = await behind().connected('full');
    const before = behind().upstream.received.length;
    const names = ['12345678901234567890', '7', 'null', '["whoami"]', '{"toString":1}'];
    for (const name of names) {
      const response = await postBody(
        link,
        token,
        `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":${name}}}`,
      );
      expect(response.status, name).to.equal(400);
      expect(await response.text(), name).to.include('"code":-32600');
    }
    expect(behind().upstream.received).to.have.length(before);
  });
});

describe('Responses of the upstream', () => {
  const behind = useUpstream(startScriptedUpstream);
  afterEach(() => behind().upstream.respondWith(echo));

  it('UPS-22 only our own headers and those of MCP are forwarded to the client', async () => {
    const { link, token } = await behind().connected('analytics');
    const plain = await call(link, token, PING);
    behind().upstream.respondWith((req, res, body, caller) => {
      const headers = {
        'set-cookie': `a=${CANARY}`,
        'access-control-allow-origin': CANARY,
        'access-control-allow-credentials': 'true',
        'www-authenticate': `Bearer ${CANARY}`,
        'content-security-policy': CANARY,
        'strict-transport-security': CANARY,
        location: `https://${CANARY}.example`,
        server: CANARY,
        'x-powered-by': CANARY,
        'x-request-id': CANARY,
        'cache-control': 'public, max-age=600',
        link: CANARY,
        'mcp-protocol-version': '2025-11-25',
      };
      for (const [name, value] of Object.entries(headers)) res.setHeader(name, value);
      return echo(req, res, body, caller);
    });
    const { status, headers } = await call(link, token, PING);
    expect(status).to.equal(200);
    expect(JSON.stringify([...headers])).to.not.include(CANARY);
    expect(headers.get('mcp-protocol-version')).to.equal('2025-11-25');
    expect([...headers.keys()].filter((name) => name !== 'mcp-protocol-version')).to.deep.equal([
      ...plain.headers.keys(),
    ]);
    expect(headers.get('cache-control')).to.equal('no-store');
  });

  it('an MCP error is forwarded to the client, and any other refusal without its text', async () => {
    const { link, token } = await behind().connected('analytics');
    const error = { code: -32_004, message: 'Unsupported', data: { supported: ['2025-11-25'] } };
    behind().upstream.respondWith((_req, res) => json(res, { jsonrpc: '2.0', id: 1, error }, 400));
    const known = await call(link, token, PING);
    expect(known.status).to.equal(400);
    expect(known.rpc).to.deep.equal({ jsonrpc: '2.0', id: 1, error });
    behind().upstream.respondWith((_req, res) =>
      res.writeHead(405, { allow: `POST, ${CANARY}`, 'content-type': 'text/html' }).end(CANARY),
    );
    const foreign = await call(link, token, PING);
    expect(foreign.status).to.equal(405);
    expect(foreign.headers.get('allow')).to.equal('POST');
    expect(foreign.text).to.not.include(CANARY);
    expect(foreign.rpc?.error).to.include.keys('code', 'message');
  });

  it('DOS-07 an MCP error of more than 64 kB is not forwarded', async () => {
    const { link, token } = await behind().connected('analytics');
    const answerWith = (length: number) => {
      const error = { code: -32_004, message: 'Refused', data: 'x'.repeat(length) };
      const message = { jsonrpc: '2.0', id: 1, error };
      behind().upstream.respondWith((_req, res) => json(res, message, 400));
      return call(link, token, PING);
    };
    expect((await answerWith(60_000)).rpc?.error?.message).to.equal('Refused');
    const large = await answerWith(66_000);
    expect(large.status).to.equal(400);
    expect(large.rpc?.error?.message).to.match(/the MCP server behind this address refused/);
    expect(large.text.length).to.be.below(1000);
  });
});
