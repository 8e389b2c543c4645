import { PassThrough } from 'node:stream';
import { expect } from 'chai';
import { createLogger } from '../../src/observability/logger.ts';
import { createConnector } from '../support/management-api.ts';
import { advanceClock } from '../support/clock.ts';
import { connect, obtainCode, redeem, registerClient } from '../support/connection.ts';
import { refresh, requestToken } from '../support/oauth.ts';
import { useSystem } from '../support/system.ts';

describe('A log entry', () => {
  it('LOG-02 a log entry is one line of JSON without control characters, whatever it contains', () => {
    const written = new PassThrough();
    const evil = 'a\n{"level":60,"msg":"forged"}\r\n\u001b[2J\u0000\u2028';
    const error = Object.assign(new Error(evil), { token: 'canary' });
    createLogger('info', written).info({ reason: evil, err: error }, evil);
    const text = String(written.read());
    expect(text.trimEnd().split('\n')).to.have.length(1);
    for (const hidden of ['\u001b', '\r', 'canary']) expect(text).to.not.include(hidden);
    expect(JSON.parse(text)).to.include({ reason: evil, msg: evil });
  });
});

describe('Responses that could disclose details', () => {
  const system = useSystem();

  it('LOG-03 the error response for an invalid code or refresh token is the same for every reason', async () => {
    const connector = await createConnector(system());
    const used = await obtainCode(system(), connector);
    const { server, client } = used;
    const old = await redeem(used);
    const other = await connect(system(), connector);
    const expired = await obtainCode(system(), connector, { as: { client } });
    advanceClock(61);
    const code = (value: string) =>
      requestToken(server, client, {
        grant_type: 'authorization_code',
        code: value,
        redirect_uri: client.redirectUri,
        code_verifier: expired.verifier,
      });
    const otherClient = await registerClient(server);
    const answers = await Promise.all([
      code('unknown'),
      code(`${expired.callback.searchParams.get('code')}x`),
      redeem(expired),
      redeem({ ...expired, client: otherClient }),
      refresh(server, client, 'unknown'),
      refresh(server, otherClient, old.body.refresh_token),
      refresh(server, client, other.refreshToken),
    ]);
    expect(answers.every(({ status }) => status === 400)).to.equal(true);
    expect(new Set(answers.map(({ body }) => JSON.stringify(body))).size).to.equal(1);
    expect(JSON.stringify(answers[0]?.body)).to.not.match(/detail|stack/);
  });

  it('LOG-06 the health endpoints return a status only, and public hosts serve no metrics', async () => {
    const { auth, resource } = system();
    for (const base of [auth, resource]) {
      for (const path of ['/livez', '/readyz'])
        expect(await (await fetch(base + path)).json()).to.deep.equal({ status: 'ok' });
      for (const path of ['/metrics', '/healthz', '/status', '/debug'])
        expect((await fetch(base + path)).status, path).to.equal(404);
    }
  });
});
