import { expect } from 'chai';
import type { Account } from '../../src/people/account.ts';
import { callerClaims } from '../../src/people/caller-claims.ts';
import type { ProviderSettings } from '../../src/people/entitlement.ts';

describe('Claims about a caller whom a trusted issuer asserts', () => {
  const vouched = { name: 'Ada', emailVerified: true, groups: [], email: 'ada@Example.com' };
  const account: Account = {
    ...vouched,
    id: 'a'.repeat(27),
    issuer: 'https://issuer.example',
    subject: 'ada',
    signedInAt: 0,
    vouched,
    neverSignedIn: true,
  };

  function emailWith(owner: string): string | undefined {
    const settings = {
      identityProviders: [{ id: 'owner', issuer: owner, emailDomains: ['example.com'] }],
      authorization: { trustedIssuers: [{ id: 'issuer', issuer: account.issuer }] },
    } as unknown as ProviderSettings;
    return callerClaims(settings, account, 'id-jag', ['email']).email;
  }

  it('ENT-09 an address in a domain of a sign-in provider is not among the claims', () => {
    expect(emailWith('https://staff.example')).to.equal(undefined);
  });

  it('ENT-09 the issuer that owns the domain as a sign-in provider asserts its addresses', () => {
    expect(emailWith('https://issuer.example/')).to.equal('ada@Example.com');
  });
});
