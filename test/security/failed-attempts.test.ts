import { expect } from 'chai';
import { createConnector } from '../support/management-api.ts';
import {
  connect,
  obtainCode,
  redeem,
  REDIRECT_URI,
  registerClient,
} from '../support/connection.ts';
import { advanceClock } from '../support/clock.ts';
import { callTool, isAccepted } from '../support/mcp.ts';
import { discover, refresh, type Client } from '../support/oauth.ts';
import { useSystem } from '../support/system.ts';
import { until } from '../support/until.ts';

describe('The limit of wrong tokens', () => {
  const system = useSystem({
    file: {
      limits: { wrongTokens: { perAddress: '5/10m' }, wrongSecrets: { perAddress: '1000/10m' } },
    },
  });

  async function tokenStatus(client: Client, server: Parameters<typeof refresh>[0], token: string) {
    const { status, body, headers } = await refresh(server, client, token);
    return { status, error: body.error, wait: headers.get('retry-after') };
  }

  it('DOS-04 DOS-03 too many wrong refresh tokens of a client get 429, and its valid tokens and other clients still work', async () => {
    const connector = await createConnector(system());
    const first = await connect(system(), connector);
    const code = await obtainCode(system(), connector, { as: { client: first.client } });
    const other = await connect(system(), connector, { person: 'grace' });
    const { server, client } = first;
    for (let n = 0; n < 5; n += 1)
      expect((await tokenStatus(client, server, 'guess')).error).to.equal('invalid_grant');
    for (let n = 0; n < 20; n += 1) {
      const { status, error, wait } = await tokenStatus(client, server, `guess-${n}`);
      expect({ status, error }).to.deep.equal({ status: 429, error: 'temporarily_unavailable' });
      expect(Number(wait)).to.be.within(1, 600);
    }
    expect((await redeem(code)).status).to.equal(200);
    expect((await refresh(server, client, first.refreshToken)).status).to.equal(200);
    expect((await tokenStatus(other.client, server, 'guess')).error).to.equal('invalid_grant');
  });

  it('DOS-04 wrong tokens of unknown clients share one limit', async () => {
    const { link } = await createConnector(system());
    const { server } = await discover(link);
    const unknown = (n: number): Client => ({
      id: `unknown-client-${n}-0123`,
      method: 'none',
      redirectUri: REDIRECT_URI,
    });
    const found = [];
    for (let n = 0; n < 8; n += 1) found.push((await tokenStatus(unknown(n), server, 'x')).status);
    expect(found).to.deep.equal([401, 401, 401, 401, 401, 429, 429, 429]);
  });

  it('STK-06 DOS-04 too many forged access tokens get 429, and valid and ended tokens do not', async () => {
    const connector = await createConnector(system());
    const { accessToken } = await connect(system(), connector);
    const ended = await connect(system(), connector, { person: 'grace' });
    await fetch(`${system().auth}/oauth/revoke`, {
      method: 'POST',
      body: new URLSearchParams({ token: ended.refreshToken ?? '', client_id: ended.client.id }),
    });
    const forged = `${accessToken.slice(0, -8)}AAAAAAAA`;
    const ask = async (link: string, token: string) =>
      (await callTool(link, token, 'club_overview')).status;
    const found = [];
    for (let n = 0; n < 8; n += 1)
      found.push(await ask(n % 2 ? connector.link : `${system().resource}/mcp`, forged));
    expect(found).to.deep.equal([401, 401, 401, 401, 401, 429, 429, 429]);
    expect(await isAccepted(connector.link, accessToken)).to.equal(true);
    expect(await ask(connector.link, ended.accessToken)).to.equal(401);
  });
});

describe('The limit of wrong secrets', () => {
  const system = useSystem({ file: { limits: { wrongSecrets: { perAddress: '5/10m' } } } });

  for (const method of ['client_secret_basic', 'client_secret_post'] as const) {
    it(`DOS-04 a client gets 429 after five wrong secrets with ${method}, until the time of the limit is over`, async () => {
      const { link } = await createConnector(system());
      const { server } = await discover(link);
      const client = await registerClient(server, method);
      const wrong = { ...client, secret: 'w'.repeat(43) };
      const ask = async (as: Client) => (await refresh(server, as, 'x')).status;
      for (let n = 0; n < 5; n += 1) expect(await ask(wrong)).to.equal(401);
      expect(await ask(wrong)).to.equal(429);
      const { status, body, headers } = await refresh(server, client, 'x');
      expect([status, body.error]).to.deep.equal([429, 'temporarily_unavailable']);
      expect(Number(headers.get('retry-after'))).to.be.within(1, 600);
      advanceClock(601);
      expect(await ask(client)).to.equal(400);
    });
  }

  it('DOS-04 wrong secrets from an address do not block a client that authenticated from it', async () => {
    const { link } = await createConnector(system());
    const { server } = await discover(link);
    const client = await registerClient(server, 'client_secret_basic');
    const wrong = { ...client, secret: 'w'.repeat(43) };
    expect((await refresh(server, client, 'x')).status).to.equal(400);
    await until('a wrong secret to get 429', async () => {
      const { status } = await refresh(server, wrong, 'x');
      expect((await refresh(server, client, 'x')).body.error).to.equal('invalid_grant');
      return status === 429;
    });
    const { server: same } = await discover(link);
    const another = await registerClient(same, 'client_secret_basic');
    expect((await refresh(server, another, 'x')).body.error).to.equal('invalid_grant');
  });

  it('ADM-02 too many wrong management keys get 429, and the right key still works', async () => {
    const { management, managementKey } = system();
    const ask = async (key: string) => {
      const headers = { authorization: `Bearer ${key}` };
      const response = await fetch(`${management}/api/v1/connectors`, { headers });
      return { status: response.status, body: (await response.json()) as { error?: string } };
    };
    expect((await ask(managementKey)).status).to.equal(200);
    const { body } = await until('a wrong key to get 429', async () => {
      const answer = await ask('w'.repeat(40));
      return answer.status === 429 && answer;
    });
    expect(body.error).to.equal('temporarily_unavailable');
    expect((await ask(managementKey)).status).to.equal(200);
  });
});
