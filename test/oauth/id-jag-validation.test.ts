// Validation of the claims of an ID-JAG, and what is read from them.
import { expect } from 'chai';
import { validateClaims, checkHeader } from '../../src/oauth/engine/id-jag-validation.ts';
import { trustedIssuerSchema } from '../../src/settings/identity-provider-schema.ts';
import { DEFAULT_LEVELS } from '../support/levels.ts';

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

function validate(claims: object, { resource, ...settings }: { [name: string]: unknown } = {}) {
  const issuer = trustedIssuerSchema.parse({ ...ISSUER, ...settings });
  const levels = DEFAULT_LEVELS;
  const expected = {
    issuer,
    levels,
    authUrl: AUTH,
    resourceUrl: RESOURCE,
    clientId: 'app',
    now: NOW,
  };
  return validateClaims({ ...CLAIMS, ...claims }, { ...expected, resource });
}

describe('ID-JAG validation', () => {
  it('EMA-01 an ID-JAG with the required claims is valid', () => {
    expect(validate({})).to.deep.equal({
      id: 'one',
      issuedAt: NOW,
      expiresAt: NOW + 360,
      resource: FIRST,
      connectorId: 'a'.repeat(22),
      isParameter: false,
      person: { issuer: ISSUER.issuer, subject: 'person-1' },
      authentication: {},
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
    it(`EMA-01 an ID-JAG with the header ${JSON.stringify(header)} ${reason ? `is rejected: ${reason}` : 'is accepted'}`, () => {
      expect(checkHeader(header)).to.equal(reason);
    });
  }

  const wrong: [object, string][] = [
    ...['sub', 'aud', 'client_id', 'jti', 'iat', 'exp'].map((name): [object, string] => [
      { [name]: undefined },
      'missing_claim',
    ]),
    [{ resource: undefined }, 'no_resource'],
    [{ resource: null }, 'missing_claim'],
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
    it(`EMA-01 an ID-JAG with ${JSON.stringify(claims, (_, value) => value ?? null).slice(0, 60)} is rejected: ${reason}`, () => {
      expect(validate(claims)).to.equal(reason);
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
    it(`EMA-02 an ID-JAG with ${JSON.stringify(claims)} is valid`, () => {
      expect(validate(claims)).to.include({ resource: FIRST });
    });
  }

  it('EMA-01 an ID-JAG is rejected unless the settings allow its issuer for the client', () => {
    expect(validate({}, { clients: ['other'] })).to.equal('client_not_trusted');
  });

  it('an ID-JAG of another tenant than that of the settings is rejected', () => {
    expect(validate({ tenant: 'acme' }, { tenant: 'acme' })).to.include({ id: 'one' });
    expect(validate({}, { tenant: 'acme' })).to.equal('wrong_tenant');
  });

  it('the request selects one of the resources of an ID-JAG', () => {
    const both = { resource: [FIRST, SECOND] };
    expect(validate(both, { resource: SECOND })).to.include({ resource: SECOND });
    expect(validate({}, { resource: `${FIRST}/` })).to.include({ resource: FIRST });
    expect(validate({}, { resource: SECOND })).to.equal('other_resource');
    expect(validate(both, { resource: [FIRST, SECOND] })).to.equal('other_resource');
  });

  it('EMA-04 an ID-JAG allows the highest level in its scope', () => {
    expect(validate({ scope: 'analytics admin' })).to.include({ level: 'admin' });
  });

  it('an email address that is too long is ignored and not truncated', () => {
    const email = `${'a'.repeat(308)}@example.com.evil.example`;
    const judged = validate({ email, email_verified: true });
    expect(judged).to.have.property('person').that.deep.equals({
      issuer: ISSUER.issuer,
      subject: 'person-1',
    });
  });

  it('the person is identified by the claim names in the settings', () => {
    const claims = { upn: 'u1', mail: 'ada@example.com', roles: ['a', 7], name: 'Ada' };
    const names = { subject: 'upn', email: 'mail', groups: 'roles' };
    expect(validate(claims, { claims: names })).to.have.deep.property('person', {
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
    it(`an email address with ${JSON.stringify({ ...claims, ...settings })} has emailVerified ${verified}`, () => {
      const judged = validate({ email: 'ada@example.com', ...claims }, settings);
      expect(judged).to.have.nested.property('person.email', 'ada@example.com');
      const person = (judged as { person: { emailVerified?: boolean } }).person;
      expect(person.emailVerified).to.equal(verified);
    });
  }
});
