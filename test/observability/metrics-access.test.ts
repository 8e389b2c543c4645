import { request } from 'node:http';
import { expect } from 'chai';
import { freePorts } from '../support/free-ports.ts';
import { parseMetrics } from '../support/metrics.ts';
import { startSystem, useSystem } from '../support/system.ts';

describe('LOG-06 Access to /metrics', () => {
  const system = useSystem();

  it('the management host serves /metrics only with the management key', async () => {
    const read = (headers: Record<string, string>, method = 'GET') =>
      fetch(`${system().management}/metrics`, { method, headers });
    const key = { authorization: `Bearer ${system().managementKey}` };
    const good = await read(key);
    expect(good.status).to.equal(200);
    expect(good.headers.get('content-type')).to.match(/^text\/plain; version=0\.0\.4/);
    expect(good.headers.get('cache-control')).to.equal('no-store');
    expect(parseMetrics(await good.text())).to.have.length.above(50);
    for (const authorization of ['', 'Bearer wrong', 'Basic eDp5']) {
      const refused = await read({ authorization });
      expect(refused.status).to.equal(401);
      expect(await refused.text()).to.not.include('gatehouse_');
    }
    expect((await read({ ...key, origin: 'https://evil.example' })).status).to.equal(403);
    expect((await read(key, 'POST')).status).to.equal(405);
  });

  it('no other host serves /metrics, with any key, spelling or Host header', async () => {
    const { auth, resource, management, managementKey } = system();
    const authorization = `Bearer ${managementKey}`;
    for (const base of [auth, resource])
      for (const path of [
        '/metrics',
        '/metrics/',
        '/METRICS',
        '//metrics',
        '/oauth/..%2fmetrics',
      ]) {
        const hosts = [new URL(base).host, new URL(management).host, 'localhost'];
        for (const host of hosts)
          expect(
            await statusOf(base, path, { host, authorization }),
            `${host} ${path}`,
          ).to.be.oneOf([404, 421]);
      }
  });
});

/** `fetch` would send its own Host. */
function statusOf(base: string, path: string, headers: Record<string, string>): Promise<number> {
  return new Promise((resolve, reject) => {
    request(base, { path, headers }, (res) => {
      res.resume();
      resolve(res.statusCode ?? 0);
    })
      .once('error', reject)
      .end();
  });
}

describe('LOG-06 The metrics listener', () => {
  it('the metrics listener serves /metrics without a key, in a process without the management role, and nothing else', async () => {
    const [port] = await freePorts(1);
    const settings = {
      GATEHOUSE_METRICS_LISTEN: `127.0.0.1:${port}`,
      GATEHOUSE_ROLES: 'authorization-server',
      GATEHOUSE_SECRET: 'secret-of-a-process-0123456789-0123456789',
    };
    const system = await startSystem({ store: 'redis', settings });
    try {
      const at = `http://127.0.0.1:${port}`;
      const answer = await fetch(`${at}/metrics`);
      expect(answer.status).to.equal(200);
      const names = parseMetrics(await answer.text()).map(({ name }) => name);
      expect(names).to.include.members([
        'gatehouse_store_seconds_count',
        'nodejs_eventloop_lag_p99_seconds',
        'process_resident_memory_bytes',
      ]);
      expect(await statusOf(at, '/metrics', { host: 'pod-7.example:9464' })).to.equal(200);
      expect(await (await fetch(`${at}/livez`)).json()).to.deep.equal({ status: 'ok' });
      for (const path of ['/', '/api/v1/connectors', '/oauth/jwks', '/metrics/x'])
        expect((await fetch(at + path)).status, path).to.equal(404);
      expect((await fetch(`${at}/metrics`, { method: 'POST' })).status).to.equal(405);
    } finally {
      await system.stop();
    }
  });
});
