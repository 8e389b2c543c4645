import { once } from 'node:events';
import type { Server } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'chai';
import Koa from 'koa';
import {
  closeAll,
  HTTP_TIMEOUTS,
  leaveAll,
  listenAll,
  ListenError,
  type ListeningHost,
} from '../../src/http/listen.ts';
import { freePorts } from '../support/free-ports.ts';
import { rawRequest } from '../support/raw-request.ts';

type HostOptions = { url: string; port: number; owns?: (path: string) => boolean };

/** Creates a host that responds with its name. */
function host(name: string, { url, port, owns = () => true }: HostOptions): ListeningHost {
  const app = new Koa();
  app.use((ctx) => {
    ctx.body = name;
  });
  return { app, url, listen: { host: '127.0.0.1', port }, setting: `the port of ${name}`, owns };
}

describe('a listener', () => {
  let servers: Server[] = [];
  let port: number;
  beforeEach(async () => {
    [port = 0] = await freePorts(1);
  });
  afterEach(async () => {
    await closeAll(servers);
    servers = [];
  });

  async function respond(path: string, name = `localhost:${port}`): Promise<string> {
    const headers = { host: name };
    return (await rawRequest(`http://127.0.0.1:${port}`, { path, headers })).body;
  }

  it('HDR-05 the path selects between two hosts with one origin', async () => {
    const url = `http://localhost:${port}`;
    servers = await listenAll([
      host('tools', { url, port, owns: (path) => /^\/tools(\/1)?$/.test(path) }),
      host('sign-in', { url, port }),
    ]);
    expect(servers).to.have.length(1);
    for (const path of ['/tools', '/tools/1', '/tools?x=/sign-in'])
      expect(await respond(path)).to.equal('tools');
    for (const path of ['/', '/sign-in', '/sign-in?x=/tools', '/x/tools'])
      expect(await respond(path)).to.equal('sign-in');
  });

  it('the Host header selects between two hosts with different names', async () => {
    servers = await listenAll([
      host('tools', { url: `http://127.0.0.1:${port}`, port, owns: (path) => path === '/tools' }),
      host('sign-in', { url: `http://localhost:${port}`, port, owns: (path) => path === '/' }),
    ]);
    expect(servers).to.have.length(1);
    for (const path of ['/', '/tools']) {
      expect(await respond(path, `127.0.0.1:${port}`)).to.equal('tools');
      expect(await respond(path, `localhost:${port}`)).to.equal('sign-in');
      expect(await respond(path, `LOCALHOST:${port}`)).to.equal('sign-in');
    }
  });

  it('the first host handles requests with an unknown Host header', async () => {
    servers = await listenAll([
      host('tools', { url: 'http://a.example', port }),
      host('sign-in', { url: 'http://b.example', port }),
    ]);
    expect(await respond('/', 'b.example')).to.equal('sign-in');
    for (const name of ['c.example', 'b.example:81', 'a.example.c.example'])
      expect(await respond('/', name)).to.equal('tools');
  });

  it('closing does not wait for a connection without any request', async () => {
    servers = await listenAll([host('one', { url: `http://localhost:${port}`, port })]);
    const socket = connect(port, '127.0.0.1').on('error', () => {});
    const [server] = servers;
    if (!server) throw new Error('there is no server');
    await once(server, 'connection');
    const ended = once(socket.resume(), 'close').then(() => 'the connection');
    const forced = delay(5500, 'the time limit', { ref: false });
    await closeAll(servers);
    expect(await Promise.race([ended, forced])).to.equal('the connection');
  });

  it('leaving refuses connections, and keeps idle ones open for a last request, until they were idle for long', async () => {
    const timeouts = { ...HTTP_TIMEOUTS, idle: 2000 };
    servers = await listenAll([host('one', { url: `http://localhost:${port}`, port })], timeouts);
    const ask = 'GET / HTTP/1.1\r\nhost: localhost\r\n\r\n';
    const open = async () => {
      const socket = connect(port, '127.0.0.1');
      let received = '';
      socket.on('data', (bytes) => (received += bytes.toString()));
      socket.write(ask);
      await once(socket, 'data');
      return { socket, received: () => received };
    };
    const [used, unused] = await Promise.all([open(), open()]);
    const left = leaveAll(servers, {});
    const refused = once(connect(port, '127.0.0.1'), 'connect');
    expect(await refused.catch(({ code }: { code: string }) => code)).to.equal('ECONNREFUSED');
    expect(unused.socket.readyState).to.equal('open');
    used.socket.write(ask);
    await once(used.socket, 'close');
    expect(used.received().split('HTTP/1.1 200')).to.have.length(3);
    expect(used.received().toLowerCase()).to.include('connection: close');
    await left;
    expect(unused.received()).to.not.include('connection: close');
  });

  it('if one listener cannot be opened, the others are closed, and the error names its setting', async () => {
    const taken = new Koa().listen(0, '127.0.0.1');
    servers = [taken];
    await once(taken, 'listening');
    const { port: busy } = taken.address() as AddressInfo;
    const hosts = [
      host('tools', { url: `http://localhost:${port}`, port }),
      host('sign-in', { url: `http://localhost:${busy}`, port: busy }),
    ];
    const error: unknown = await listenAll(hosts).catch((thrown: unknown) => thrown);
    expect(error).to.be.instanceOf(ListenError);
    expect(String(error)).to.include(`port ${busy} is in use`).and.include('the port of sign-in');
    await closeAll([taken]);
    servers = await listenAll(hosts);
    expect(servers).to.have.length(2);
  });
});
