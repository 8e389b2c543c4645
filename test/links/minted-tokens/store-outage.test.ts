import { assert, expect } from 'chai';
import { advanceClock } from '../../support/clock.ts';
import { callTool, isAccepted } from '../../support/mcp.ts';
import { useSystem } from '../../support/system.ts';
import { until } from '../../support/until.ts';
import { addressOf, askRaw, mint } from './minting.ts';

describe('Minted tokens while the store is unavailable', () => {
  const system = useSystem({ store: 'redis' });

  it('STK-03 STK-06 a call with a minted token returns 503, and nothing is minted or revoked', async () => {
    const [known, unread] = [await mint(system()), await mint(system())];
    expect(await isAccepted(addressOf(system()), known.token)).to.equal(true);
    system().signalStore('SIGSTOP');
    try {
      expect(await isAccepted(addressOf(system()), known.token)).to.equal(true);
      advanceClock(46);
      for (const { token } of [known, unread]) {
        const answer = await callTool(addressOf(system()), token, 'club_overview');
        expect(answer.status, answer.text).to.equal(503);
        expect(answer.headers.has('www-authenticate')).to.equal(false);
        expect(Number(answer.headers.get('retry-after'))).to.be.above(0);
      }
      const changed = await callTool(addressOf(system()), `${known.token}x`, 'club_overview');
      expect(changed.status).to.equal(401);
      const wanted = { name: 'Nightly report', level: 'full' };
      const answers = await Promise.all([
        askRaw(system(), 'POST', '/tokens', wanted),
        askRaw(system(), 'GET', '/tokens'),
      ]);
      for (const { status, text } of answers) {
        expect(status, text).to.equal(503);
        expect(JSON.parse(text).error).to.equal('temporarily_unavailable');
      }
    } finally {
      system().signalStore('SIGCONT');
    }
    for (const { token } of [known, unread])
      await until('the token to be accepted', () => isAccepted(addressOf(system()), token));
  });

  it('calls with the level full fail, because they cannot be audited', async () => {
    const { token } = await mint(system(), { level: 'full' });
    expect(await isAccepted(addressOf(system()), token)).to.equal(true);
    system().signalStore('SIGSTOP');
    try {
      const { rpc, text } = await callTool(addressOf(system()), token, 'club_overview');
      assert(rpc?.error);
      expect(text).to.not.include('members');
    } finally {
      system().signalStore('SIGCONT');
    }
  });
});
