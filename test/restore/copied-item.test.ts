import { expect } from 'chai';
import { copyOf } from '../../src/restore/copied-item.ts';
import { subjectsOf } from '../../src/restore/decisions.ts';

describe('The copy of an item that a replay writes', () => {
  const lost = {
    id: 'lost',
    epoch: 'before',
    number: 7,
    time: '2030-01-01T00:00:00.000Z',
    by: 'account:admin',
    salt: 'salt',
    digests: { address: 'digest' },
    names: { ada: 'Ada' },
  };

  it('CNX-10 another replay finds in it what the item was about', () => {
    const item = { ...lost, event: 'credential_ended', account: 'ada', upstream: 'orders' };
    const ended = { ...item, outcome: 'done', reason: 'disconnected' };
    const copy = copyOf(ended);
    expect(subjectsOf({ ...copy, time: ended.time })).to.deep.equal(subjectsOf(ended));
    expect(subjectsOf(ended)).to.have.lengthOf(1);
  });

  it('it has all members but those that belong to the place of the item', () => {
    const about = {
      event: 'level_lowered',
      account: 'ada',
      clientId: 'app',
      connector: 'orders',
      grantId: 'grant',
      upstream: 'tools',
      level: 'read',
      subject: 'system:serviceaccount:a:b',
      count: 2,
      outcome: 'done',
      reason: 'entitlement',
      arguments: { from: 'write' },
    };
    expect(copyOf({ ...lost, ...about })).to.deep.equal(about);
  });
});
