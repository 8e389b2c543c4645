// What the claims of an assertion that vouches for a person must say, and what is read from them.
import { expect } from 'chai';
import {
  judgeClaims,
  judgeHeader,
} from '../../src/authorization-server/engine/id-jag-judgement.ts';
import { trustedIssuerSchema } from '../../src/settings/identity-provider-schema.ts';

const NOW = 1_800_000_000;
const AUTH = 'https://auth.example.com';
const RESOURCE = 'https://mcp.example.com';
const [FIRST, SECOND] = ['a', 'b'].map((letter) => `${RESOURCE}/connect/${letter.repeat(22)}/mcp`);
const ISSUER = {
  issuer: 'https://login.example.com',
  jwksUri: 'https://login.example.com/keys',
  clients: ['app'],
};
const CLAIMS = {
  iss: ISSUER.issuer,
  sub: 'person-1',
  aud: AUTH,
  client_id: 'app',
  resource: FIRST,
  jti: 'one',
  iat: NOW,
  exp: NOW + 300,
};

function judge(claims: object, { resource, ...settings }: { [name: string]: unknown } = {}) {
  const issuer = trustedIssuerSchema.parse({ ...ISSUER, ...settings });
  const expected = { issuer, authUrl: AUTH, resourceUrl: RESOURCE, clientId: 'app', now: NOW };
  return judgeClaims({ ...CLAIMS, ...claims }, { ...expected, resource });
}

describe('An assertion that vouches for a person', () => {
  it('is good when it says all that it must', () => {
    expect(judge({})).to.deep.equal({
      id: 'one',
      issuedAt: NOW,
      overAt: NOW + 360,
      resource: FIRST,
      connectorId: 'a'.repeat(22),
      person: { issuer: ISSUER.issuer, subject: 'person-1' },
    });
  });

  const headers: [object, string | undefined][] = [
    [{ typ: 'oauth-id-jag+jwt', alg: 'ES256' }, undefined],
    [{ typ: 'application/OAuth-ID-JAG+jwt', alg: 'RS256' }, undefined],
    [{ typ: 'JWT', alg: 'ES256' }, 'wrong_type'],
    [{ alg: 'ES256' }, 'wrong_type'],
    [{ typ: 'oauth-id-jag+jwt', alg: 'none' }, 'wrong_algorithm'],
    [{ typ: 'oauth-id-jag+jwt', alg: 'HS256' }, 'wrong_algorithm'],
  ];
  for (const [header, reason] of headers) {
    it(`with the header ${JSON.stringify(header)} is ${reason ?? 'read'}`, () => {
      expect(judgeHeader(header)).to.equal(reason);
    });
  }

  const wrong: [object, string][] = [
    ...['sub', 'aud', 'client_id', 'resource', 'jti', 'iat', 'exp'].map(
      (name): [object, string] => [{ [name]: undefined }, 'missing_claim'],
    ),
    [{ sub: '' }, 'missing_claim'],
    [{ sub: 7 }, 'missing_claim'],
    [{ jti: 'x'.repeat(513) }, 'missing_claim'],
    [{ exp: String(NOW + 300) }, 'missing_claim'],
    [{ nbf: 'soon' }, 'missing_claim'],
    [{ scope: ['operations'] }, 'missing_claim'],
    [{ aud: `${AUTH}/` }, 'wrong_audience'],
    [{ aud: [AUTH, 'https://other.example.com'] }, 'wrong_audience'],
    [{ aud: [] }, 'wrong_audience'],
    [{ client_id: 'other' }, 'wrong_client'],
    [{ tenant: 'other' }, 'wrong_tenant'],
    [{ cnf: { jkt: 'x' } }, 'unsupported_restriction'],
    [{ authorization_details: [] }, 'unsupported_restriction'],
    [{ exp: NOW - 60, iat: NOW - 400 }, 'expired'],
    [{ iat: NOW + 61, exp: NOW + 300 }, 'not_yet_valid'],
    [{ nbf: NOW + 61 }, 'not_yet_valid'],
    [{ exp: NOW + 3601 }, 'too_long_lived'],
    [{ scope: '' }, 'scope_without_level'],
    [{ scope: 'openid offline_access' }, 'scope_without_level'],
    [{ resource: RESOURCE }, 'unknown_resource'],
    [{ resource: [] }, 'unknown_resource'],
    [{ resource: [FIRST, SECOND] }, 'several_resources'],
  ];
  for (const [claims, reason] of wrong) {
    it(`with ${JSON.stringify(claims, (_, value) => value ?? null).slice(0, 60)} is ${reason}`, () => {
      expect(judge(claims)).to.equal(reason);
    });
  }

  const right: object[] = [
    { aud: [AUTH] },
    { exp: NOW - 59, iat: NOW - 400 },
    { iat: NOW + 60, nbf: NOW + 60 },
    { resource: [`${FIRST}/`] },
    { act: { sub: 'agent' } },
  ];
  for (const claims of right) {
    it(`with ${JSON.stringify(claims)} is good`, () => {
      expect(judge(claims)).to.include({ resource: FIRST });
    });
  }

  it('is for a client that its issuer may vouch for', () => {
    expect(judge({}, { clients: ['other'] })).to.equal('client_not_vouched');
  });

  it('names the tenant of the settings, and no other', () => {
    expect(judge({ tenant: 'acme' }, { tenant: 'acme' })).to.include({ id: 'one' });
    expect(judge({}, { tenant: 'acme' })).to.equal('wrong_tenant');
  });

  it('is for the resource that the request chooses among its own', () => {
    const both = { resource: [FIRST, SECOND] };
    expect(judge(both, { resource: SECOND })).to.include({ resource: SECOND });
    expect(judge({}, { resource: `${FIRST}/` })).to.include({ resource: FIRST });
    expect(judge({}, { resource: SECOND })).to.equal('other_resource');
    expect(judge(both, { resource: [FIRST, SECOND] })).to.equal('other_resource');
  });

  it('gives the highest level in its scope', () => {
    expect(judge({ scope: 'analytics admin' })).to.include({ level: 'admin' });
  });

  it('says nothing of an address that is too long, because its beginning is another address', () => {
    const email = `${'a'.repeat(308)}@example.com.evil.example`;
    const judged = judge({ email, email_verified: true });
    expect(judged).to.have.property('person').that.deep.equals({
      issuer: ISSUER.issuer,
      subject: 'person-1',
    });
  });

  it('says of the person what its claims say, under the names of the settings', () => {
    const claims = { upn: 'u1', mail: 'ada@example.com', roles: ['a', 7], name: 'Ada' };
    const names = { subject: 'upn', email: 'mail', groups: 'roles' };
    expect(judge(claims, { claims: names })).to.have.deep.property('person', {
      issuer: ISSUER.issuer,
      subject: 'u1',
      name: 'Ada',
      email: 'ada@example.com',
      groups: ['a'],
    });
  });

  const addresses: [object, Record<string, unknown>, boolean | undefined][] = [
    [{}, {}, undefined],
    [{ email_verified: true }, {}, true],
    [{ email_verified: 'true' }, {}, false],
    [{}, { emailIsVerified: true }, true],
  ];
  for (const [claims, settings, verified] of addresses) {
    it(`with an address and ${JSON.stringify({ ...claims, ...settings })} says ${verified} of it`, () => {
      const judged = judge({ email: 'ada@example.com', ...claims }, settings);
      expect(judged).to.have.nested.property('person.email', 'ada@example.com');
      const person = (judged as { person: { emailVerified?: boolean } }).person;
      expect(person.emailVerified).to.equal(verified);
    });
  }
});
