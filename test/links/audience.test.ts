import { expect } from 'chai';
import { audienceText, parseAudienceRule } from '../../src/links/audience.ts';

describe('the text of an audience rule', () => {
  for (const [text, rule] of [
    ['email:ada@example.com', { email: 'ada@example.com' }],
    ['email:ada@example.com@okta', { email: 'ada@example.com', provider: 'okta' }],
    ['domain:example.com', { emailDomain: 'example.com' }],
    ['domain:example.com@idp.example', { emailDomain: 'example.com', provider: 'idp.example' }],
    ['group:analysts', { group: 'analysts' }],
    ['group:Business analysts@okta', { group: 'Business analysts', provider: 'okta' }],
    ['group:team@example.com@okta', { group: 'team@example.com', provider: 'okta' }],
    ['group:email:x', { group: 'email:x' }],
  ] as const) {
    it(`${text} is parsed and printed unchanged`, () => {
      expect(parseAudienceRule(text)).to.deep.equal(rule);
      expect(audienceText(rule)).to.equal(text);
    });
  }

  it('space around a rule is ignored', () => {
    expect(parseAudienceRule('  group:analysts \r\n')).to.deep.equal({ group: 'analysts' });
  });

  it('a text without a known kind is not a rule', () => {
    for (const text of [
      '',
      'ada@example.com',
      'analysts',
      'Group:analysts',
      'user:ada',
      ':',
      'groups:x',
    ])
      expect(parseAudienceRule(text), text).to.equal(undefined);
  });

  it('an incomplete rule keeps its empty members, which the API refuses', () => {
    expect(parseAudienceRule('group:')).to.deep.equal({ group: '' });
    expect(parseAudienceRule('group:@okta')).to.deep.equal({ group: '', provider: 'okta' });
    expect(parseAudienceRule('email:ada@example.com@')).to.include({ provider: '' });
  });
});
