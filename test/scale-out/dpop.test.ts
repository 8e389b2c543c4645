// Three processes on one Redis take each proof of a key once between them (RFC 9449 section 11.1), and each other's nonces.
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
import { type Processes, useProcesses } from '../support/scale-out/processes.ts';

const TIMES = 30;

function times<T>(run: () => Promise<T>): Promise<T[]> {
  return Promise.all(Array.from({ length: TIMES }, run));
}

/** How many answers had each status. */
function counted(answers: readonly { status: number }[]): Record<number, number> {
  const counts: Record<number, number> = {};
  for (const { status } of answers) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}

describe('Three processes on one Redis', () => {
  const processes = useProcesses(() => ({ store: 'redis' }));
  let connector: Connector;
  let connection: BoundConnection;
  before(async () => {
    connector = await createConnector(processes());
    connection = await connectBound(processes(), connector);
  });

  function whoAnswered({ responses }: Processes, from: number): Set<unknown> {
    return new Set(responses.slice(from).map(({ by }) => by));
  }

  it('AUD-11 let one of many calls with the same proof in', async () => {
    const { key, link: url, accessToken: token } = connection;
    const dpop = await createProof(key, { url, token });
    const from = processes().responses.length;
    const answers = await times(() => callBound(connection, { more: { dpop } }));
    expect(counted(answers)).to.deep.equal({ 200: 1, 401: TIMES - 1 });
    expect(whoAnswered(processes(), from).size).to.equal(3);
  });

  it('answer one of many refreshes with the same proof, and many with proofs of their own alike', async () => {
    const proof = await createProof(connection.key, { url: connection.server.token_endpoint });
    const same = await times(() => refreshBound(connection, { proof }));
    expect(counted(same)).to.deep.equal({ 200: 1, 400: TIMES - 1 });
    const own = await times(() => refreshBound(connection));
    expect(counted(own)).to.deep.equal({ 200: TIMES });
    const successors = [...own, ...same].flatMap(({ body }) => body.refresh_token ?? []);
    expect(new Set(successors).size).to.equal(1);
  });

  it('take the nonces of each other, and of one that has a new root secret', async () => {
    const previous = {
      GATEHOUSE_PREVIOUS_SECRET: 'a root secret that all processes of the tests share',
    };
    const secret = { GATEHOUSE_SECRET: 'another root secret, which is the one from tomorrow on' };
    const added = await processes().add({ ...previous, ...secret });
    const iat = Math.floor(Date.now() / 1000) - 4000;
    const asked = await callBound(connection, { lies: { claims: { iat } } });
    const nonce = asked.headers.get('dpop-nonce');
    const lies: ProofOverrides = { claims: { iat, nonce } };
    const from = processes().responses.length;
    const calls = await times(() => callBound(connection, { lies }));
    expect(counted(calls)).to.deep.equal({ 200: TIMES });
    const fresh = await connectBound(processes(), connector, { key: connection.key });
    const refreshes = await times(async () => {
      const proof = await createProof(
        connection.key,
        { url: connection.server.token_endpoint },
        lies,
      );
      return refreshBound(fresh, { proof });
    });
    expect(counted(refreshes)).to.deep.equal({ 200: TIMES });
    expect(whoAnswered(processes(), from)).to.include(added.ports.AUTH);
  });
});
