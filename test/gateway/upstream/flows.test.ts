import { expect } from 'chai';
import type { Level } from '../../../src/permission-levels.ts';
import {
  connectV1,
  connectV2,
  type ConnectWithToken,
  type TokenClient,
} from '../../support/upstream/sdk-clients.ts';
import { startUpstreamV1 } from '../../support/upstream/sdk-v1.ts';
import { startUpstreamV2 } from '../../support/upstream/sdk-v2.ts';
import { type ConnectedPerson, useUpstream } from '../../support/upstream/system.ts';
import { until } from '../../support/until.ts';

const CLIENTS: Record<string, ConnectWithToken> = {
  'SDK v1': connectV1,
  'SDK v2 (2025 revisions)': connectV2('legacy'),
  'SDK v2': connectV2('auto'),
};

for (const [server, open] of Object.entries({
  'SDK v1': startUpstreamV1,
  'SDK v2': startUpstreamV2,
})) {
  describe(`An upstream built with ${server}`, () => {
    const behind = useUpstream(open);
    const clients: TokenClient[] = [];
    /** One connection for each level and ceiling. */
    const people = new Map<string, Promise<ConnectedPerson>>();
    afterEach(async () => {
      behind().upstream.release();
      for (const client of clients.splice(0)) await client.close();
    });

    async function connectAt(sdk: ConnectWithToken, level: Level, ceiling: Level = level) {
      const name = `${level}, ${ceiling}`;
      const connecting = people.get(name) ?? behind().connected(level, ceiling);
      people.set(name, connecting);
      const person = await connecting;
      const client = await sdk(person.link, person.token);
      clients.push(client);
      return { client, ...person };
    }

    for (const [name, sdk] of Object.entries(CLIENTS)) {
      describe(`a client built with ${name}`, () => {
        it('the client negotiates the newest common revision', async () => {
          const { client } = await connectAt(sdk, 'analytics');
          const isModern = server === 'SDK v2' && name === 'SDK v2';
          expect(client.protocolVersion()).to.match(isModern ? /^2026-/ : /^2025-/);
        });

        it('the client calls a tool, which learns the caller and the connector', async () => {
          const { client, connector, connection } = await connectAt(sdk, 'operations', 'admin');
          const { structuredContent } = await client.callTool('whoami', { page: 2 });
          expect(structuredContent).to.deep.include({ tool: 'whoami', given: { page: 2 } });
          expect(structuredContent?.['caller']).to.include({
            client_id: connection.client.id,
            connector: connector.id,
            level: 'operations',
            aud: behind().upstream.url,
            iss: behind().system.auth,
          });
        });

        it('the client sees the tools that its connect link can reach', async () => {
          const { client } = await connectAt(sdk, 'analytics', 'admin');
          expect(await client.listTools()).to.deep.equal(['whoami', 'wait', 'contacts']);
          const { client: full } = await connectAt(sdk, 'analytics', 'full');
          expect(await full.listTools()).to.deep.equal([
            'whoami',
            'wait',
            'contacts',
            'cards',
            'undeclared',
          ]);
        });

        it('the client receives the progress events of a call one by one', async () => {
          const { client } = await connectAt(sdk, 'analytics');
          const seen: number[] = [];
          const call = client.callTool('wait', {}, { onProgress: (n) => void seen.push(n) });
          // The call is still waiting at the upstream when its first events have arrived.
          await until(
            'two events are here',
            () => seen.length === 2 && behind().upstream.waiting() === 1,
          );
          behind().upstream.release();
          expect((await call).structuredContent).to.include({ tool: 'wait' });
          expect(seen.slice(0, 2)).to.deep.equal([1, 2]);
        });

        it('the client cancels a call, which ends at the upstream too', async () => {
          const { client } = await connectAt(sdk, 'analytics');
          const stop = new AbortController();
          const call = client.callTool('wait', {}, { signal: stop.signal }).catch(() => 'stopped');
          await until('the upstream to receive the call', () => behind().upstream.waiting() === 1);
          stop.abort();
          expect(await call).to.equal('stopped');
          // Without sessions, the 2025 revisions have no cancellation that the server could match to the call.
          if (server === 'SDK v2' && client.protocolVersion()?.startsWith('2025-'))
            await client.close();
          await until('the call to end at the upstream', () => behind().upstream.waiting() === 0);
        });

        it("a tool above the connect link's level is a tool error", async () => {
          const { client } = await connectAt(sdk, 'operations');
          expect(await client.callTool('cards', { canary: name })).to.include({ isError: true });
          expect(await client.callTool('undeclared')).to.include({ isError: true });
          const bodies = JSON.stringify(behind().upstream.received.map(({ body }) => body));
          expect(bodies).to.not.include(`"canary":"${name}"`).and.not.include('undeclared');
        });
      });
    }
  });
}
