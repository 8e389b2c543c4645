import {
  Client as ClientV2,
  StreamableHTTPClientTransport as TransportV2,
} from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as TransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  ToolListChangedNotificationSchema,
  UrlElicitationRequiredError,
} from '@modelcontextprotocol/sdk/types.js';
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { connect } from 'node:net';
import { z } from 'zod';
import { type Person, requirePage } from '../support/browser.ts';
import { createConnector, readAllAudit, requestManagement } from '../support/management-api.ts';
import {
  type ProtectedServer,
  startProtectedServer,
} from '../support/credentials/protected-server.ts';
import { startSystem, type System } from '../support/system.ts';
import { call } from '../support/mcp.ts';
import {
  type Connected,
  connectPerson,
  later,
  openAddress,
  settingsFor,
  textOf,
  UPSTREAM,
  usePersonalUpstream,
  WHOAMI,
} from '../support/credentials/system.ts';
import { until } from '../support/until.ts';

const elicitation = z.looseObject({ mode: z.string(), url: z.string() });

function elicitationsIn(error: unknown) {
  return z.object({ data: z.object({ elicitations: z.array(elicitation) }) }).parse(error).data
    .elicitations;
}

const inputRequired = z.object({
  resultType: z.string(),
  inputRequests: z.object({ account: z.object({ method: z.string(), params: elicitation }) }),
  requestState: z.string(),
});

const STATELESS = '2026-07-28';

describe('An app whose person has not connected the own account', () => {
  const { system, service, link, connectAs } = usePersonalUpstream();

  const addressPrefix = () => `${system().auth}/credentials/${UPSTREAM}?for=`;

  async function connectAccount({ browser, call: ask }: Connected) {
    const page = await openAddress(await ask(), browser);
    await browser.submit(page, { credential: 'now' });
  }

  /** The headers of a session that begins without an account. */
  async function beginSession({ token }: Connected): Promise<Record<string, string>> {
    const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'app' } };
    const initialize = { jsonrpc: '2.0', id: 0, method: 'initialize', params };
    const { headers } = await call(link(), token, initialize);
    return { 'mcp-session-id': String(headers.get('mcp-session-id')) };
  }

  const disconnect = ({ token }: Connected) =>
    requestManagement(
      system(),
      'DELETE',
      `/credentials/${UPSTREAM}.${String(decodeJwt(token).sub)}`,
    );

  it('a session of the SDK that began before goes on with the account, and is told that the tools changed', async () => {
    const app = await connectAs('ada', later);
    const client = new ClientV1({ name: 'app', version: '1' });
    const transport = new TransportV1(new URL(link()), {
      requestInit: { headers: { authorization: `Bearer ${app.token}` } },
    });
    let isTold = false;
    client.setNotificationHandler(ToolListChangedNotificationSchema, () => {
      isTold = true;
    });
    await client.connect(transport);
    const before = await client.listTools();
    expect(before.tools.map(({ name }) => name)).to.deep.equal(['connect_account']);
    const asked = await client.callTool({ name: 'connect_account', arguments: {} });
    expect(JSON.stringify(asked.content)).to.contain(addressPrefix());
    await connectAccount(app);
    await until('the app to be told', () => isTold);
    const after = await client.listTools();
    expect(after.tools.map(({ name }) => name)).to.deep.equal(['whoami']);
    const { content } = await client.callTool({ name: 'whoami', arguments: {} });
    expect(content).to.deep.equal([{ type: 'text', text: 'ada' }]);
    expect(
      service()
        .calls.filter(({ method }) => method === 'initialize')
        .at(-1)?.status,
    ).to.equal(200);
    await client.close();
  });

  it('a call without the account is refused in the audit log, with the reason, and the call of the tool that connects it is answered', async () => {
    const app = await connectAs('grace', later);
    const account = String(decodeJwt(app.token).sub);
    await app.call();
    await call(link(), app.token, { ...WHOAMI, params: { name: 'connect_account' } });
    const items = await until('both calls to be recorded', async () => {
      const calls = (await readAllAudit(system())).filter(
        (item) => item.event === 'call' && item.account === account,
      );
      return calls.length === 2 && calls;
    });
    expect(items.map(({ tool, outcome, reason }) => ({ tool, outcome, reason }))).to.deep.equal([
      { tool: 'whoami', outcome: 'refused', reason: 'credential_required' },
      { tool: 'connect_account', outcome: 'answered', reason: undefined },
    ]);
  });

  it('the stream that waits for the account ends when the person may no longer use the connector', async () => {
    const app = await connectAs('grace', later);
    const response = await fetch(link(), {
      headers: { authorization: `Bearer ${app.token}`, accept: 'text/event-stream' },
    });
    expect(response.status).to.equal(200);
    const ended = response.text().catch(() => 'broken off');
    const id = link().split('/').at(-2) ?? '';
    const changeAudience = (audience: object[] | null) =>
      requestManagement(system(), 'PATCH', `/connectors/${id}`, { audience });
    await changeAudience([{ email: 'nobody@example.com' }]);
    await ended.finally(() => changeAudience(null));
  });

  it('CRD-12 the stream that waits for the account ends once, also if the client reads its end after more changes', async () => {
    const ada = await connectAs('ada');
    const app = await connectAs('grace', later);
    const { host, hostname, port, pathname } = new URL(link());
    const open = (token: string) =>
      `GET ${pathname} HTTP/1.1\r\nhost: ${host}\r\nauthorization: Bearer ${token}\r\naccept: text/event-stream\r\n\r\n`;
    const socket = connect(Number(port), hostname);
    let received = '';
    socket.setEncoding('utf8').on('data', (text: string) => (received += text));
    // The response to the second request waits for the end of the first.
    socket.write(open(ada.token) + open(app.token));
    await until('the first stream', () => service().streams.size === 1);
    const plain = await fetch(link(), {
      headers: { authorization: `Bearer ${app.token}`, accept: 'text/event-stream' },
    });
    await connectAccount(app);
    expect(await plain.text()).to.contain('list_changed');
    const account = String(decodeJwt(app.token).sub);
    const { items } = z
      .object({ items: z.array(z.object({ id: z.string() })) })
      .parse(await requestManagement(system(), 'GET', `/credentials?account=${account}`));
    await requestManagement(system(), 'DELETE', `/credentials/${items[0]?.id}`);
    expect(received).to.not.contain('list_changed');
    for (const stream of service().streams) stream.end();
    await until('the second stream', () => received.includes('list_changed'));
    socket.destroy();
  });

  it('an app of 2026-07-28 hears that a server of unknown revision has sessions', async () => {
    const app = await connectAs('grace', later);
    const discover = { jsonrpc: '2.0', id: 1, method: 'server/discover', params: {} };
    expect((await call(link(), app.token, discover)).rpc?.error?.code).to.equal(-32_601);
  });

  it('an app of 2025-11-25 with elicitation by URL gets the error that asks for it', async () => {
    const app = await connectAs('grace', later);
    const initialized = await call(link(), app.token, {
      jsonrpc: '2.0',
      id: 0,
      method: 'initialize',
      params: {
        protocolVersion: '2025-11-25',
        capabilities: { elicitation: { url: {} } },
        clientInfo: { name: 'app', version: '1' },
      },
    });
    const session = String(initialized.headers.get('mcp-session-id'));
    const { rpc } = await call(link(), app.token, WHOAMI, {
      headers: { 'mcp-session-id': session },
    });
    expect(rpc?.error?.code).to.equal(-32042);
    const [asked] = elicitationsIn(rpc?.error);
    expect(asked?.mode).to.equal('url');
    expect(asked?.url).to.satisfy((url: string) => url.startsWith(addressPrefix()));
  });

  it('a session that began before goes on with a newer token if the server refuses the first one', async () => {
    const app = await connectAs('grace', later);
    const headers = await beginSession(app);
    await connectAccount(app);
    service().expire();
    service().onRotation = () => service().expire();
    const asked = await call(link(), app.token, WHOAMI, { headers });
    expect(textOf(asked)).to.contain(addressPrefix());
    service().onRotation = () => undefined;
    expect(textOf(await call(link(), app.token, WHOAMI, { headers }))).to.equal('ada');
    const account = String(decodeJwt(app.token).sub);
    const { items } = z
      .object({ items: z.array(z.object({ id: z.string() })) })
      .parse(await requestManagement(system(), 'GET', `/credentials?account=${account}`));
    await requestManagement(system(), 'DELETE', `/credentials/${items[0]?.id}`);
  });

  it('a session that began before goes on at a server that answers 400 to the revision of the app', async () => {
    const app = await connectAs('grace', later);
    const headers = await beginSession(app);
    await connectAccount(app);
    service().latestRevision = '2025-06-18';
    try {
      for (const _ of [1, 2])
        expect(textOf(await call(link(), app.token, WHOAMI, { headers }))).to.equal('ada');
    } finally {
      service().latestRevision = undefined;
    }
    await disconnect(app);
  });

  it('a session that began before goes on at a server that opens it with an event stream, and only as long as it is read', async () => {
    const app = await connectAs('grace', later);
    const headers = await beginSession(app);
    await connectAccount(app);
    service().opensByStream = true;
    try {
      expect(textOf(await call(link(), app.token, WHOAMI, { headers }))).to.equal('ada');
    } finally {
      service().opensByStream = false;
    }
    await disconnect(app);
  });

  it('the SDK 1 reports the address, which is of no use to somebody else, and its call succeeds after it', async () => {
    const app = await connectAs('grace', later);
    const client = new ClientV1(
      { name: 'app', version: '1' },
      { capabilities: { elicitation: { url: {} } } },
    );
    await client.connect(
      new TransportV1(new URL(link()), {
        requestInit: { headers: { authorization: `Bearer ${app.token}` } },
      }),
    );
    const asked = await client
      .callTool({ name: 'whoami', arguments: {} })
      .then(() => undefined)
      .catch((error: unknown) => error);
    if (!(asked instanceof UrlElicitationRequiredError)) throw new Error('it is not asked');
    const [{ url } = { url: '' }] = asked.elicitations;
    const other = await connectAs('ada', later);
    expect(requirePage(await other.browser.visit(url)).status).to.equal(403);
    const page = requirePage(await app.browser.visit(url));
    await app.browser.submit(page, { credential: 'now' });
    const { content } = await client.callTool({ name: 'whoami', arguments: {} });
    expect(content).to.deep.equal([{ type: 'text', text: 'ada' }]);
    await client.close();
    await disconnect(app);
  });

  it('an app of 2026-07-28 with elicitation by URL is asked for input, and the repeated request succeeds', async () => {
    const app = await connectAs('grace', later);
    const request = (more: object = {}) => ({
      ...WHOAMI,
      params: {
        ...WHOAMI.params,
        ...more,
        _meta: {
          'io.modelcontextprotocol/protocolVersion': STATELESS,
          'io.modelcontextprotocol/clientCapabilities': { elicitation: { url: {} } },
        },
      },
    });
    const headers = {
      'mcp-protocol-version': STATELESS,
      'mcp-method': 'tools/call',
      'mcp-name': 'whoami',
    };
    const asked = await call(link(), app.token, request(), { headers });
    const { resultType, inputRequests, requestState } = inputRequired.parse(asked.rpc?.result);
    expect(resultType).to.equal('input_required');
    expect(inputRequests.account.method).to.equal('elicitation/create');
    expect(inputRequests.account.params.mode).to.equal('url');
    await connectAccount(app);
    const answered = { inputResponses: { account: { action: 'accept' } }, requestState };
    expect(textOf(await call(link(), app.token, request(answered), { headers }))).to.equal('ada');
    // The state is bound to the person.
    const other = await connectAs('ada');
    const foreign = await call(link(), other.token, request(answered), { headers });
    expect(textOf(foreign)).to.not.equal('ada');
  });
});

describe('An app whose person has no account at a server of MCP 2026-07-28', () => {
  let service: ProtectedServer;
  let system: System;
  let link: string;
  before(async function start() {
    service = await startProtectedServer();
    service.isStateless = true;
    service.answersAnybody = true;
    system = await startSystem({ file: settingsFor(service.url) });
    ({ link } = await createConnector(system, { name: 'Own notes' }));
  });
  after(async () => {
    await system?.stop();
    await service?.close();
  });

  it('is asked through the SDK 2, which repeats the call by itself', async () => {
    const connectAs = (person: Person) =>
      connectPerson({ system, service, link, person, complete: later });
    const [app, other] = [await connectAs('grace'), await connectAs('ada')];
    const client = new ClientV2(
      { name: 'app', version: '1' },
      {
        capabilities: { elicitation: { url: {} } },
        versionNegotiation: { mode: { pin: STATELESS } },
      },
    );
    const statuses: number[] = [];
    client.setRequestHandler('elicitation/create', async ({ params }) => {
      if (params.mode !== 'url') throw new Error('the mode is not url');
      statuses.push(requirePage(await other.browser.visit(params.url)).status);
      const page = requirePage(await app.browser.visit(params.url));
      statuses.push(requirePage(await app.browser.submit(page, { credential: 'now' })).status);
      return { action: 'accept' };
    });
    const headers = { authorization: `Bearer ${app.token}` };
    await client.connect(new TransportV2(new URL(link), { requestInit: { headers } }));
    const { content } = await client.callTool({ name: 'whoami', arguments: {} });
    expect(content).to.deep.equal([{ type: 'text', text: 'ada' }]);
    expect(statuses).to.deep.equal([403, 200]);
    await client.close();
  });
});
