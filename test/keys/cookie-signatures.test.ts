import { createSecretKey } from 'node:crypto';
import { createServer } from 'node:http';
import { expect } from 'chai';
import Koa from 'koa';
import { cookieSignatures } from '../../src/keys/cookie-signatures.ts';
import { listenOnLoopback } from '../support/loopback-server.ts';

const keyOf = (text: string) => createSecretKey(Buffer.from(text.repeat(32)));
const [newer, older, other] = ['n', 'o', 'x'].map((text) => cookieSignatures([keyOf(text)]));
const ring = cookieSignatures([keyOf('n'), keyOf('o')]);

describe('Cookie signatures', () => {
  it('keygrip accepts our cookie signatures, and we accept those of keygrip', async () => {
    const app = new Koa();
    app.keys = [Buffer.from('n'.repeat(32)).toString('base64url')];
    app.use((ctx) => {
      ctx.body = ctx.cookies.get('session', { signed: true }) ?? 'none';
      ctx.cookies.set('session', '1', { signed: true });
    });
    const server = createServer(app.callback());
    const { origin, stop } = await listenOnLoopback(server);
    const cookie = `session=1; session.sig=${ring.sign('session=1')}`;
    const answer = await fetch(origin, { headers: { cookie } });
    expect(await answer.text()).to.equal('1');
    const [, signature = ''] =
      /session\.sig=([^;]+)/.exec(String(answer.headers.getSetCookie())) ?? [];
    expect(ring.verify('session=1', signature)).to.equal(true);
    await stop();
  });

  it('a cookie is signed with the first key of the ring', () => {
    expect(ring.sign('_session=1')).to.equal(newer?.sign('_session=1'));
    expect(ring.sign('_session=1')).not.to.equal(older?.sign('_session=1'));
  });

  it('the index of the verifying key is returned, so that a cookie signed with an older key is signed again', () => {
    for (const [signer, index] of [[newer, 0] as const, [older, 1] as const]) {
      const signature = signer?.sign('_session=1') ?? '';
      expect(ring.index('_session=1', signature)).to.equal(index);
      expect(ring.verify('_session=1', signature)).to.equal(true);
    }
  });

  it('a signature of another cookie or another key is rejected', () => {
    const signature = ring.sign('_session=1');
    const wrong: [string, string][] = [
      ['_session=2', signature],
      ['_session=1', other?.sign('_session=1') ?? ''],
      ['_session=1', signature.slice(1)],
      ['_session=1', `${signature}=`],
      ['_session=1', signature.replace(/^./, 'é')],
      ['_session=1', ''],
    ];
    for (const [text, presented] of wrong) {
      expect(ring.index(text, presented)).to.equal(-1);
      expect(ring.verify(text, presented)).to.equal(false);
    }
  });
});
