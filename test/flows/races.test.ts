// RFC 6749 section 4.1.2, RFC 9700 section 4.14.
import { expect } from 'chai';
import { createConnector, readAudit } from '../support/management-api.ts';
import { advanceClock } from '../support/clock.ts';
import {
  connect,
  obtainCode,
  redeem,
  registerClient,
  type Connection,
} from '../support/connection.ts';
import { callTool, isAccepted } from '../support/mcp.ts';
import { refresh, type TokenResponse } from '../support/oauth.ts';
import { onEachStore, type System } from '../support/system.ts';

const TEN = 10;

function times<T>(count: number, run: () => Promise<T>): Promise<T[]> {
  return Promise.all(Array.from({ length: count }, run));
}

const statuses = (answers: TokenResponse[]) => answers.map(({ status }) => status).sort();

async function newConnection(system: System): Promise<Connection> {
  return connect(system, await createConnector(system));
}

function rotate({ server, client, link }: Connection, token: string | undefined) {
  return refresh(server, client, token, { resource: link });
}

onEachStore('Concurrent use of a code', (system) => {
  it('COD-01 a code that is redeemed ten times at once is redeemed once, and its tokens stay valid', async () => {
    const { link } = await createConnector(system());
    const code = await obtainCode(system(), { link });
    const answers = await times(TEN, () => redeem(code, { resource: link }));
    expect(statuses(answers)).to.deep.equal([200, ...Array(TEN - 1).fill(400)]);
    for (const { status, body } of answers)
      if (status === 400) expect(body.error).to.equal('invalid_grant');
    const winner = answers.find(({ status }) => status === 200)?.body;
    expect(await isAccepted(link, winner?.access_token)).to.equal(true);
    const { server, client } = code;
    expect((await refresh(server, client, winner?.refresh_token)).status).to.equal(200);
  });

  it('COD-02 a code that is redeemed again later ends its grant', async () => {
    const { link } = await createConnector(system());
    const code = await obtainCode(system(), { link });
    const { body } = await redeem(code);
    advanceClock(2);
    expect((await redeem(code)).body.error).to.equal('invalid_grant');
    const { server, client } = code;
    const refreshed = await refresh(server, client, body.refresh_token);
    expect(refreshed.body.error).to.equal('invalid_grant');
    expect((await callTool(link, body.access_token, 'club_overview')).status).to.equal(401);
  });
});

onEachStore('Concurrent use of a refresh token', (system) => {
  it('a refresh token that is used ten times at once has one successor', async () => {
    const connection = await newConnection(system());
    const answers = await times(TEN, () => rotate(connection, connection.refreshToken));
    expect(statuses(answers)).to.deep.equal(Array(TEN).fill(200));
    const successors = new Set(answers.map(({ body }) => body.refresh_token));
    expect(successors.size).to.equal(1);
    for (const { body } of answers)
      expect(await isAccepted(connection.link, body.access_token)).to.equal(true);
    const [successor] = successors;
    expect(successor).to.not.equal(connection.refreshToken);
    expect((await rotate(connection, successor)).status).to.equal(200);
  });

  it('eight processes that share a refresh token all stay connected', async () => {
    const connection = await newConnection(system());
    const answers = await times(8, async () => {
      const { body } = await rotate(connection, connection.refreshToken);
      return rotate(connection, body.refresh_token);
    });
    expect(statuses(answers)).to.deep.equal(Array(8).fill(200));
  });

  it('a refresh token that is used again within a minute returns the current one, also one generation behind', async () => {
    const connection = await newConnection(system());
    const second = await rotate(connection, connection.refreshToken);
    const third = await rotate(connection, second.body.refresh_token);
    advanceClock(50);
    const again = await rotate(connection, connection.refreshToken);
    expect(again.status).to.equal(200);
    expect(again.body.refresh_token).to.equal(third.body.refresh_token);
  });

  it('a refresh token that is used again after a minute is rotated again if its successor was never used', async () => {
    const connection = await newConnection(system());
    const lost = await rotate(connection, connection.refreshToken);
    advanceClock(61);
    const found = await rotate(connection, connection.refreshToken);
    expect(found.status).to.equal(200);
    expect(found.body.refresh_token).to.not.equal(lost.body.refresh_token);
    expect(await isAccepted(connection.link, found.body.access_token)).to.equal(true);
    expect((await rotate(connection, found.body.refresh_token)).status).to.equal(200);
  });

  it('LOG-04 a replay by eight concurrent requests ends the grant with one audit event', async () => {
    const connection = await newConnection(system());
    const second = await rotate(connection, connection.refreshToken);
    const third = await rotate(connection, second.body.refresh_token);
    advanceClock(61);
    const thieves = await times(8, () => rotate(connection, connection.refreshToken));
    for (const { body } of thieves) expect(body.error).to.equal('invalid_grant');
    expect((await rotate(connection, third.body.refresh_token)).body.error).to.equal(
      'invalid_grant',
    );
    const { status } = await callTool(connection.link, third.body.access_token, 'club_overview');
    expect(status).to.equal(401);
    const events = (await readAudit(system())).filter(
      ({ event, clientId }) => event === 'refresh_replay' && clientId === connection.client.id,
    );
    expect(events).to.have.length(1);
  });

  it('an old refresh token is rejected for another client and does not affect the grant', async () => {
    const connection = await newConnection(system());
    const second = await rotate(connection, connection.refreshToken);
    const third = await rotate(connection, second.body.refresh_token);
    advanceClock(61);
    const stranger = await registerClient(connection.server);
    const stolen = await refresh(connection.server, stranger, connection.refreshToken);
    expect(stolen.body.error).to.equal('invalid_grant');
    expect((await rotate(connection, third.body.refresh_token)).status).to.equal(200);
  });

  it('an unused refresh token that was superseded ends the grant when it is used', async () => {
    const connection = await newConnection(system());
    const dead = await rotate(connection, connection.refreshToken);
    advanceClock(61);
    const current = await rotate(connection, connection.refreshToken);
    advanceClock(61);
    expect((await rotate(connection, dead.body.refresh_token)).body.error).to.equal(
      'invalid_grant',
    );
    const after = await rotate(connection, current.body.refresh_token);
    expect(after.body.error).to.equal('invalid_grant');
  });
});
