import { expect } from 'chai';
import { DEVELOPMENT, load, issuesIn, wrongSettings } from './settings-file.ts';

const SECRET = 'a-secret-of-a-client-that-is-long-enough';
const ADDRESS = 'https://desktop.example.com/client.json';
const DOCUMENT = { client_id: ADDRESS, redirect_uris: ['http://127.0.0.1/callback'] };

describe('A client in the settings', () => {
  it('a client cannot have the id of an introspection client', () => {
    const client = { id: 'reporting', name: 'Reporting', redirectUris: ['https://a.example/cb'] };
    const introspectionClients = ['other', 'reporting'].map((id) => ({ id, secret: SECRET }));
    const file = {
      ...DEVELOPMENT,
      clients: { preRegistered: [client] },
      authorization: { introspectionClients },
    };
    expect(issuesIn(file)).to.deep.equal([
      {
        setting: 'authorization.introspectionClients[1].id',
        given: '"reporting"',
        expected: 'an id that is not also in clients.preRegistered',
      },
    ]);
  });
});

describe('The key of a client in the settings', () => {
  const key = { kty: 'EC', crv: 'P-256', x: 'AQ', y: 'AQ' };
  const jwks = { keys: [key] };
  const jwksUri = 'https://keys.example.com/keys';
  const withClient = (credentials: object) => ({
    ...DEVELOPMENT,
    clients: {
      preRegistered: [
        { id: 'reporting', name: 'R', redirectUris: ['https://a.example/cb'], ...credentials },
      ],
    },
  });
  const place = 'clients.preRegistered[0]';

  it('a client has a secret, keys, or the address of keys', () => {
    for (const credentials of [{}, { secret: SECRET }, { jwks }, { jwksUri }])
      expect(load(withClient(credentials)).clients.preRegistered).to.have.lengthOf(1);
  });

  it('two credentials of one client are an issue', () => {
    for (const credentials of [
      { secret: SECRET, jwks },
      { secret: SECRET, jwksUri },
      { jwks, jwksUri },
    ])
      expect(wrongSettings(withClient(credentials))).to.deep.equal([place]);
  });

  it('private, symmetric, unusable and missing keys are an issue, and the issue does not show them', () => {
    for (const wrong of [
      [],
      [{ ...key, d: 'AQ' }],
      [key, { kty: 'oct', k: 'AQ' }],
      [{ ...key, crv: 'P-384' }],
      [{ kty: 'RSA', n: 'AQ', e: 'AQAB' }],
    ]) {
      const file = withClient({ jwks: { keys: wrong } });
      expect(wrongSettings(file)).to.deep.equal([`${place}.jwks`]);
      expect(JSON.stringify(issuesIn(file))).to.not.include('"d"');
    }
  });

  it('an address of keys is https, with a host name and without a port', () => {
    for (const wrong of [
      'http://keys.example.com/keys',
      'https://10.0.0.7/keys',
      'https://localhost/keys',
      'https://keys.example.com:8443/keys',
      'https://user@keys.example.com/keys',
      'keys',
    ])
      expect(wrongSettings(withClient({ jwksUri: wrong }))).to.deep.equal([`${place}.jwksUri`]);
  });
});

describe('A metadata document in the settings', () => {
  const withDocument = (document: object) => ({
    ...DEVELOPMENT,
    clients: { metadataDocuments: [{ url: ADDRESS, document }] },
  });
  const place = 'clients.metadataDocuments[0].document';

  it('a metadata document has its address as client_id, and at least one redirect URI', () => {
    expect(load(withDocument(DOCUMENT)).clients.metadataDocuments).to.have.lengthOf(1);
  });

  it('CIM-11 a metadata document of another client is an issue', () => {
    const document = { ...DOCUMENT, client_id: 'https://other.example.com/client.json' };
    expect(wrongSettings(withDocument(document))).to.deep.equal([`${place}.client_id`]);
  });

  const USELESS = [undefined, [], 'http://127.0.0.1/callback', ['not an address'], [DOCUMENT, 7]];
  for (const uris of USELESS) {
    it(`a metadata document with the redirect URIs ${JSON.stringify(uris)} is an issue`, () => {
      const document =
        uris === undefined ? { client_id: ADDRESS } : { ...DOCUMENT, redirect_uris: uris };
      expect(wrongSettings(withDocument(document))).to.deep.equal([`${place}.redirect_uris`]);
    });
  }
});
