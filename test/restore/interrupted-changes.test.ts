import { expect } from 'chai';
import { subjectsOf } from '../../src/restore/decisions.ts';
import { isUncertain } from '../../src/restore/subjects/subject.ts';

const change = (event: string, outcome: string, more: object = {}) => ({
  time: '2026-11-26T12:00:00.000Z',
  event,
  outcome,
  account: 'ada-and-a-few-more-letters-1',
  clientId: 'an-app-with-an-id-of-22-letters',
  grantId: 'a-grant-with-an-id-of-22-letters',
  ...more,
});

const block = { arguments: { effect: 'block', host: 'bad.example.com' } };
const allowed = { arguments: { effect: 'allow', name: 'App', destinations: ['app.example.com'] } };

describe('A replay of a change of which nobody knows whether it was made', () => {
  for (const [event, more] of [
    ['account_enabled', {}],
    ['client_allowed', allowed],
    ['kept_out_ended', {}],
    ['level_raised', { arguments: { level: 'full' } }],
    ['workload_resumed', {}],
    ['client_rule_removed', block],
  ] as const)
    it(`RST-04 gives nothing back (${event})`, () => {
      expect(subjectsOf(change(event, 'done', more))).to.not.deep.equal([]);
      expect(subjectsOf(change(event, 'interrupted', more))).to.deep.equal([]);
    });

  for (const [event, more] of [
    ['account_disabled', {}],
    ['client_revoked', {}],
    ['client_blocked', block],
    ['client_rule_removed', allowed],
    ['level_lowered', { arguments: { level: 'analytics' } }],
    ['workload_paused', {}],
  ] as const)
    it(`RST-04 takes away what it may have taken (${event})`, () => {
      const [done, interrupted] = ['done', 'interrupted'].map((outcome) =>
        subjectsOf(change(event, outcome, more)),
      );
      expect(interrupted).to.deep.equal(done).and.not.deep.equal([]);
    });

  it('RST-04 does not rely on the new values of a connector, a machine or a token', () => {
    const details = { arguments: { before: { level: 'analytics' }, after: { level: 'full' } } };
    expect(isUncertain([change('connector_changed', 'done', details)])).to.equal(false);
    expect(isUncertain([change('connector_changed', 'interrupted', details)])).to.equal(true);
  });
});
