import { expect } from 'chai';
import { startGatehouse } from '../../src/server.ts';
import { createLogger } from '../../src/observability/logger.ts';
import { loadSettings } from '../../src/settings/load.ts';
import { until } from '../support/until.ts';
import { createDeployment, type System } from '../support/system.ts';

type Line = Record<string, unknown>;

describe('LOG-01 The request log', () => {
  const lines: Line[] = [];
  let system: System | undefined;
  before(async () => {
    const place = await createDeployment();
    const write = (line: string) => void lines.push(JSON.parse(line));
    const logger = createLogger('trace', { write });
    const running = await startGatehouse(loadSettings(place.environment), { logger });
    const stop = async () => {
      await running.stop();
      await place.release();
    };
    system = { ...place.facts, signalStore: place.signalStore, stop };
  });
  after(() => system?.stop());
  const here = () => {
    if (!system) throw new Error('the system runs only during tests');
    return system;
  };
  const requestLines = (id: string | null) =>
    lines.filter(({ msg, requestId }) => msg === 'request' && requestId === id);

  it('LOG-12 the log has one line for every request, with the new request id of its response', async () => {
    const headers = { 'x-request-id': 'chosen-by-us' };
    const { auth, resource, management } = here();
    const ids: (string | null)[] = [];
    for (const base of [auth, resource, management])
      for (const path of ['/', '/nowhere', '/oauth/token', '/connect/none/mcp', '/api/v1/audit'])
        for (const method of ['GET', 'POST', 'DELETE']) {
          const answer = await fetch(base + path, { method, headers });
          await answer.text();
          ids.push(answer.headers.get('x-request-id'));
        }
    expect(ids).to.not.include(null);
    expect(new Set(ids).size).to.equal(ids.length);
    await until('all requests to be logged', () => ids.every((id) => requestLines(id).length > 0));
    for (const id of ids) expect(requestLines(id), String(id)).to.have.length(1);
  });

  it('LOG-04 the log contains the request id shown on an error page, with the reason', async () => {
    const { auth } = here();
    const pages: [path: string, init?: RequestInit][] = [
      ['/nowhere'],
      ['/oauth/authorize'],
      ['/oauth/authorize?client_id=unknown&redirect_uri=http://127.0.0.1/'],
      ['/interaction/unknown'],
      ['/interaction/unknown', { method: 'POST' }],
      ['/interaction/callback?state=unknown'],
      ['/account/callback?state=unknown'],
      ['/oauth/authorize/unknown'],
      ['/oauth/authorize', { method: 'PROPFIND' }],
    ];
    for (const [path, init] of pages) {
      const answer = await fetch(auth + path, { ...init, headers: { accept: 'text/html' } });
      const id = answer.headers.get('x-request-id') ?? '';
      expect(answer.status, path).to.be.within(400, 499);
      expect(answer.headers.get('content-type'), path).to.match(/^text\/html/);
      expect(await answer.text(), path).to.include(id);
      const [line] = await until(path, () => requestLines(id).length > 0 && requestLines(id));
      expect(line?.reason, path).to.match(/^[a-z_]+$/);
    }
  });
});
