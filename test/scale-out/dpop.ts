// Tests of DPoP proofs at several processes (RFC 9449 section 11.1).
import { expect } from 'chai';
import { type Connector, createConnector } from '../support/management-api.ts';
import {
  type BoundConnection,
  callBound,
  connectBound,
  type ProofOverrides,
  createProof,
  refreshBound,
} from '../support/dpop.ts';
import { type Processes, SECRET } from '../support/scale-out/processes.ts';

const TIMES = 12;
/** The processes read what is encrypted with either, as during a rotation. */
const ROTATED_SECRET = 'the new root secret, which is long enough';
export const ROTATION = { GATEHOUSE_PREVIOUS_SECRET: ROTATED_SECRET };

function times<T>(run: () => Promise<T>): Promise<T[]> {
  return Promise.all(Array.from({ length: TIMES }, run));
}

/** The number of responses with each status. */
function countStatuses(answers: readonly { status: number }[]): Record<number, number> {
  const counts: Record<number, number> = {};
  for (const { status } of answers) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}

function processesSince({ responses }: Processes, from: number): Set<unknown> {
  return new Set(responses.slice(from).map(({ by }) => by));
}

/** The processes have the settings `ROTATION`. */
export function testDpop(processes: () => Processes): void {
  let connector: Connector;
  let connection: BoundConnection;
  before(async () => {
    connector = await createConnector(processes());
    connection = await connectBound(processes(), connector);
  });

  it('AUD-11 of concurrent calls with one proof at three instances, one succeeds', async () => {
    const { key, link: url, accessToken: token } = connection;
    const dpop = await createProof(key, { url, token });
    const from = processes().responses.length;
    const answers = await times(() => callBound(connection, { more: { dpop } }));
    expect(countStatuses(answers)).to.deep.equal({ 200: 1, 401: TIMES - 1 });
    expect(processesSince(processes(), from).size).to.equal(3);
  });

  it('of concurrent refreshes with one proof one succeeds, and refreshes with different proofs get one successor', async () => {
    const proof = await createProof(connection.key, { url: connection.server.token_endpoint });
    const same = await times(() => refreshBound(connection, { proof }));
    expect(countStatuses(same)).to.deep.equal({ 200: 1, 400: TIMES - 1 });
    const own = await times(() => refreshBound(connection));
    expect(countStatuses(own)).to.deep.equal({ 200: TIMES });
    const successors = [...own, ...same].flatMap(({ body }) => body.refresh_token ?? []);
    expect(new Set(successors).size).to.equal(1);
  });

  it('each instance accepts the nonces of the others, also of one with a rotated root secret', async () => {
    const secrets = { GATEHOUSE_SECRET: ROTATED_SECRET, GATEHOUSE_PREVIOUS_SECRET: SECRET };
    const fresh = await connectBound(processes(), connector, { key: connection.key });
    const added = await processes().add(secrets);
    const iat = Math.floor(Date.now() / 1000) - 4000;
    const asked = await callBound(connection, { overrides: { claims: { iat } } });
    const nonce = asked.headers.get('dpop-nonce');
    const overrides: ProofOverrides = { claims: { iat, nonce } };
    const from = processes().responses.length;
    const calls = await times(() => callBound(connection, { overrides }));
    expect(countStatuses(calls)).to.deep.equal({ 200: TIMES });
    const refreshes = await times(async () => {
      const proof = await createProof(
        connection.key,
        { url: connection.server.token_endpoint },
        overrides,
      );
      return refreshBound(fresh, { proof });
    });
    expect(countStatuses(refreshes)).to.deep.equal({ 200: TIMES });
    expect(processesSince(processes(), from)).to.include(added.ports.AUTH);
    await added.kill();
  });
}
