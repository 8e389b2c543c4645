import { expect } from 'chai';
import {
  type CallLimitSettings,
  haveLimits,
  limitsOfCall,
} from '../../src/connections/call-limits.ts';

const RATE = { count: 10, seconds: 60 };

function settingsWith({
  calls = {},
  level = {},
  tool = {},
}: Record<'calls' | 'level' | 'tool', object> | Record<string, object>): CallLimitSettings {
  return {
    levels: [{ id: 'read', ...level }, { id: 'write' }],
    limits: { calls },
    upstreams: [
      { id: 'other', tools: [] },
      { id: 'main', tools: [{ name: 'search', ...tool }] },
    ],
  } as unknown as CallLimitSettings;
}

/** Calls of others skip all limits if the settings are said to have none. */
describe('The limits on calls in the settings', () => {
  for (const [kind, given] of [
    ['person', { calls: { perPerson: RATE } }],
    ['connection', { calls: { perConnection: RATE } }],
    ['level', { level: { calls: RATE } }],
    ['tool', { tool: { calls: RATE } }],
  ] as const)
    it(`are noticed if the only one is that of a ${kind}`, () => {
      const settings = settingsWith(given);
      const caller = { accountId: 'ada', connection: 'grant', upstream: 'main' };
      const limits = limitsOfCall(settings, caller, { level: 'read', tool: 'search' });
      expect(limits.map((limit) => limit.kind)).to.deep.equal([kind]);
      expect(haveLimits(settings)).to.equal(true);
    });

  it('are none without one', () => {
    expect(haveLimits(settingsWith({}))).to.equal(false);
  });
});
