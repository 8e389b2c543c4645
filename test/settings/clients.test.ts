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

describe('A metadata document in the settings', () => {
  const withDocument = (document: object) => ({
    ...DEVELOPMENT,
    clients: { metadataDocuments: [{ url: ADDRESS, document }] },
  });
  const place = 'clients.metadataDocuments[0].document';

  it('a metadata document has its address as client_id, and at least one redirect URI', () => {
    expect(load(withDocument(DOCUMENT)).clients.metadataDocuments).to.have.lengthOf(1);
  });

  it('a metadata document of another client is an issue', () => {
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
