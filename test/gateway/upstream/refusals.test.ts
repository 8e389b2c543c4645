import { expect } from 'chai';
import type { LogLine } from '../../support/system.ts';
import { until } from '../../support/until.ts';
import { call } from '../../support/mcp.ts';
import {
  echo,
  event,
  PING,
  resultFor,
  startScriptedUpstream,
  stream,
} from '../../support/upstream/scripted-upstream.ts';
import { useUpstream } from '../../support/upstream/system.ts';

const SECRET = 'canary-of-the-operator';

describe('A refusal of the upstream', () => {
  const log: LogLine[] = [];
  const behind = useUpstream(startScriptedUpstream, {
    settings: { headers: { authorization: `Bearer ${SECRET}` } },
    system: { log },
  });
  afterEach(() => behind().upstream.respondWith(echo));

  const causes = () => log.map(({ err }) => (err as { message?: string } | undefined)?.message);

  for (const status of [403, 410, 421])
    it(`UPS-16 HTTP ${status} is not passed on, and the log has its words`, async () => {
      const { link, token } = await behind().connected('analytics', 'full');
      behind().upstream.respondWith((_req, res) =>
        res.writeHead(status).end(`Not for\u0007 you, ${status}`),
      );
      const refused = await call(link, token, PING);
      expect(refused.status).to.equal(502);
      expect(refused.headers.has('www-authenticate')).to.equal(false);
      expect(refused.rpc).to.deep.include({ jsonrpc: '2.0', id: 1 });
      expect(refused.text).to.not.include('Not for');
      await until('the reason in the log', () =>
        causes().some((cause) =>
          cause?.startsWith(`the upstream answered ${status}: Not for you, ${status}`),
        ),
      );
    });

  it('UPS-13 words that repeat a credential or the caller header are not in the log', async () => {
    const { link, token } = await behind().connected('analytics', 'full');
    const before = log.length;
    const refusals = () =>
      log.slice(before).filter(({ err }) => JSON.stringify(err ?? '').includes('answered 421'));
    for (const header of ['authorization', 'gatehouse-caller']) {
      behind().upstream.respondWith((req, res) =>
        res.writeHead(421).end(`Wrong: ${String(req.headers[header]).slice(10, 30)}`),
      );
      await call(link, token, PING);
    }
    await until('both refusals in the log', () => refusals().length === 2);
    expect(JSON.stringify(log)).to.not.include('Wrong:');
  });

  it('the log names the setting if the upstream refuses the Host header', async () => {
    const { link, token } = await behind().connected('analytics', 'full');
    behind().upstream.respondWith((_req, res) =>
      res.writeHead(403).end('Forbidden: invalid Host header'),
    );
    await call(link, token, PING);
    await until('the hint', () =>
      causes().includes(
        'the upstream answered 403: Forbidden: invalid Host header (see the setting host)',
      ),
    );
  });

  it('a 403 that asks for a level that the person can grant becomes a step-up to it', async () => {
    const { link, token } = await behind().connected('analytics', 'admin');
    const asksFor = (scope: string) =>
      behind().upstream.respondWith((_req, res) =>
        res
          .writeHead(403, {
            'www-authenticate': `Bearer error="insufficient_scope", scope="${scope}"`,
          })
          .end(),
      );
    asksFor('operations');
    const { status, headers } = await call(link, token, PING);
    expect(status).to.equal(403);
    expect(headers.get('www-authenticate'))
      .to.match(/^Bearer error="insufficient_scope", resource_metadata="/)
      .and.to.match(/ scope="operations"$/);
    for (const scope of ['full', 'analytics', 'repo']) {
      asksFor(scope);
      expect((await call(link, token, PING)).status, scope).to.equal(502);
    }
  });

  it('events that are skipped are logged once for each kind, however many there are', async () => {
    const { link, token } = await behind().connected('analytics', 'full');
    behind().upstream.respondWith((_req, res) => {
      stream(res, 'data: ping\n\n', 'data: ping\n\n', 'data: {}\n\n', event(resultFor(PING)));
      res.end();
    });
    const skipped = () => log.filter(({ msg }) => /events that are skipped/.test(String(msg)));
    await call(link, token, PING);
    await call(link, token, PING);
    await until('both kinds', () => skipped().length >= 2);
    expect(skipped().map(({ reason }) => reason)).to.deep.equal([
      'an event is not JSON',
      'an event is not JSON-RPC',
    ]);
  });
});

describe('The setting host of an upstream', () => {
  const behind = useUpstream(startScriptedUpstream, { settings: { host: 'localhost:8000' } });

  it('is the Host of forwarded requests, and of those of Gatehouse', async () => {
    const { link, token } = await behind().connected('analytics');
    expect((await call(link, token, PING)).status).to.equal(200);
    await until('a request of Gatehouse', () => behind().upstream.discoveries.length > 0);
    const { received, discoveries } = behind().upstream;
    const hosts = [...received, ...discoveries].map(({ headers }) => headers.host);
    expect(new Set(hosts)).to.deep.equal(new Set(['localhost:8000']));
  });
});
