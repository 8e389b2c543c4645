import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { expect } from 'chai';
import { INTERNET } from '../../src/http/guarded-request.ts';
import { sendToReceiver } from '../../src/audit/delivery/send.ts';
import { fetchDocument } from '../../src/oauth/engine/guarded-fetch.ts';
import { proxyFor, readForwardProxy } from '../../src/settings/forward-proxy.ts';
import { gatehouseProgram } from '../management/command-line.ts';
import { runServerWhile } from '../support/main-process.ts';
import { createDeployment } from '../support/system.ts';
import { until } from '../support/until.ts';

/** A proxy that connects to one server, whatever it is asked for. */
async function startProxy(target = 0) {
  const asked: string[] = [];
  const open = new Set<Socket>();
  const server = createServer((socket) => {
    open.add(socket);
    socket.on('error', () => undefined);
    socket.once('data', (data) => {
      asked.push(data.toString('latin1').split('\r\n')[0] ?? '');
      if (target === 0) return socket.end('HTTP/1.1 403 Forbidden\r\n\r\n');
      const to = connect(target, '127.0.0.1', () => {
        socket.write('HTTP/1.1 200 OK\r\n\r\n');
        socket.pipe(to).pipe(socket);
      });
      open.add(to);
      to.on('error', () => socket.destroy());
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    asked,
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      open.forEach((socket) => socket.destroy());
      server.close();
      await once(server, 'close');
    },
  };
}

const RECEIVER = {
  id: 'siem',
  kind: 'otlp',
  url: 'https://siem.example.com:8443/x',
  privateNetwork: false,
  events: undefined,
  headers: {},
  maxAge: 3600,
} as const;

describe('The forward proxy', () => {
  const { value: proxy } = readForwardProxy({
    HTTPS_PROXY: 'http://proxy.example.com:3128',
    NO_PROXY: 'tools.internal, .example.org,10.0.0.0/8 idp.example.com:8443',
  });

  it('NO_PROXY names hosts, domains, ranges of addresses and ports that are reached directly, and loopback always is', () => {
    const direct = [
      'https://tools.internal/mcp',
      'https://one.tools.internal',
      'https://login.example.org',
      'https://10.1.2.3',
      'https://idp.example.com:8443',
      'https://[::ffff:10.1.2.3]',
      'https://localhost:4001',
      'https://localhost.:4001',
      'https://[::ffff:127.0.0.1]',
      'https://[::1]:1',
      'http://other.example.com',
    ];
    const proxied = [
      'https://idp.example.com',
      'https://my-tools.internal',
      'https://11.0.0.1',
      'https://[::ffff:11.0.0.1]',
    ];
    for (const url of direct) expect(proxyFor(url, proxy), url).to.equal(undefined);
    for (const url of proxied) expect(proxyFor(url, proxy), url).to.include('proxy.example.com');
  });

  it('entries of NO_PROXY that are IPv4 addresses in IPv6 form match the address in either form', () => {
    const mapped = readForwardProxy({
      HTTPS_PROXY: 'http://proxy.example.com:3128',
      NO_PROXY: '::ffff:10.1.2.3, [::ffff:10.2.0.0]/112, tools.internal.',
    }).value;
    for (const url of ['https://10.1.2.3', 'https://[::ffff:a01:203]', 'https://10.2.9.9'])
      expect(proxyFor(url, mapped), url).to.equal(undefined);
    for (const url of ['https://tools.internal', 'https://tools.internal.'])
      expect(proxyFor(url, mapped), url).to.equal(undefined);
    expect(proxyFor('https://10.3.0.1', mapped)).to.include('proxy.example.com');
  });

  it('a proxy that is no address is an issue that does not show it', () => {
    const { issues } = readForwardProxy({ HTTPS_PROXY: 'user:hunter2@proxy:3128' });
    expect(issues.map(({ setting }) => setting)).to.deep.equal(['HTTPS_PROXY']);
    expect(JSON.stringify(issues)).to.not.include('hunter2');
  });

  it('documents of apps are fetched from the checked address, so that the proxy resolves no name, and internal addresses are refused before', async () => {
    const forward = await startProxy();
    const forwardProxy = readForwardProxy({ HTTPS_PROXY: forward.url }).value;
    const network = { ...INTERNET, forwardProxy, resolve: async () => ['93.184.215.14'] };
    const error: unknown = await fetchDocument('https://app.example.com/client', network).catch(
      (reason: unknown) => reason,
    );
    expect(error).to.have.property('message').that.includes('the proxy refuses');
    expect(forward.asked).to.deep.equal(['CONNECT 93.184.215.14:443 HTTP/1.1']);
    const internal = { ...network, resolve: async () => ['10.0.0.1'] };
    const refused: unknown = await fetchDocument('https://in.example.com/', internal).catch(
      (reason: unknown) => reason,
    );
    expect(refused).to.have.property('name', 'DocumentRefused');
    expect(forward.asked).to.have.lengthOf(1);
    await forward.close();
  });

  it('the audit log reaches receivers in the own network by their names, and others by checked addresses', async () => {
    const forward = await startProxy();
    const forwardProxy = readForwardProxy({
      HTTPS_PROXY: forward.url,
      HTTP_PROXY: forward.url,
    }).value;
    const signal = AbortSignal.timeout(10_000);
    const request = { headers: {}, body: Buffer.from('{}') };
    const failure = (other: object) =>
      sendToReceiver({ ...RECEIVER, ...other }, request, {
        forwardProxy,
        network: { resolve: async () => ['93.184.215.14'] },
        signal,
      }).catch((error: unknown) => String(error));
    expect(await failure({})).to.include('the proxy refuses');
    expect(await failure({ url: 'http://siem.internal:8088/x', privateNetwork: true })).to.include(
      'the proxy refuses',
    );
    expect(forward.asked).to.deep.equal([
      'CONNECT 93.184.215.14:8443 HTTP/1.1',
      'CONNECT siem.internal:8088 HTTP/1.1',
    ]);
    await forward.close();
  });

  it('doctor asks the identity provider through HTTP_PROXY, as sign-ins do', async () => {
    const forward = await startProxy();
    const identityProvider = { issuer: 'http://idp.corp.test:8080', clientId: 'gatehouse' };
    const deployment = await createDeployment({
      file: {
        identityProvider,
        developmentIdp: undefined,
        entitlements: [{ match: { group: 'analysts' }, level: 'operations' }],
      },
    });
    try {
      const { GATEHOUSE_DEVELOPMENT_IDP_URL: _development, ...own } = deployment.environment;
      const environment = {
        ...own,
        HTTP_PROXY: forward.url,
        GATEHOUSE_SECRET: 'a root secret of more than 32 characters',
      };
      const { stdout } = await gatehouseProgram(['doctor', '--json'], environment);
      const { findings } = JSON.parse(stdout) as { findings: { check: string; what: string }[] };
      const ofProvider = findings.filter(({ check }) => check === 'identity-provider');
      expect(ofProvider.map(({ what }) => what).join()).to.include('the response is 403');
    } finally {
      await deployment.release();
      await forward.close();
    }
  });

  it('a process sends requests to its identity provider and its MCP servers through HTTP_PROXY, also to one with a host of its own', async () => {
    const forward = await startProxy();
    const deployment = await createDeployment({
      file: {
        identityProvider: {
          issuer: 'http://idp.corp.test:8080',
          clientId: 'gatehouse',
          clientSecret: 'a-client-secret-that-is-long-enough',
        },
        developmentIdp: undefined,
        resourceServer: {
          upstreams: [
            { id: 'one', name: 'One', url: 'http://tools.corp.test:3000/mcp' },
            { id: 'two', name: 'Two', url: 'http://own.corp.test:3000/mcp', host: 'localhost' },
          ],
        },
        levels: [{ id: 'read' }, { id: 'write' }],
        entitlements: [{ match: { group: 'analysts' }, level: 'read' }],
      },
    });
    try {
      const { GATEHOUSE_DEVELOPMENT_IDP_URL: _development, ...own } = deployment.environment;
      const environment = { ...own, HTTP_PROXY: forward.url };
      const { stderr } = await runServerWhile(environment, /Connect|Gatehouse/, () =>
        until('all requests', async () =>
          ['idp.corp.test:8080', 'tools.corp.test:3000', 'own.corp.test:3000'].every((host) =>
            forward.asked.some((line) => line.includes(host)),
          ),
        ).then(() => undefined),
      );
      expect(stderr).to.equal('');
    } finally {
      await deployment.release();
      await forward.close();
    }
  });
});
