import { expect } from 'chai';
import { isIdentifiedByHost } from '../../src/oauth/engine/client-metadata-documents.ts';
import { DOMAIN } from '../oauth/metadata-documents/document-host.ts';
import { wrongSettings } from '../settings/settings-file.ts';
import { openBrowser, requireExternalRedirect, requirePage } from '../support/browser.ts';
import { authorizeUrl, discover, exchange } from '../support/oauth.ts';
import { isAsked, usePublishing } from '../oauth/metadata-documents/publishing.ts';

describe('The setting clients.metadataDocumentHosts', () => {
  const shared = 'https://raw.githubusercontent.com/somebody/client/main.json';
  const pinned = (url: string) => ({
    url,
    document: { client_id: url, client_name: 'Claude', redirect_uris: ['http://localhost/cb'] },
  });
  const publishing = usePublishing(
    'sqlite',
    ({ network }) => ({ network, limits: { minFailureSeconds: 0, maxPerMinutePerHost: Infinity } }),
    {
      clients: {
        metadataDocumentHosts: [`app.${DOMAIN}`, `shared.${DOMAIN}/acme/`],
        metadataDocuments: [pinned(shared)],
      },
    },
  );

  it('CIM-10 only documents of listed hosts and paths are fetched, and others are refused', async () => {
    const { host, newClient, visit } = publishing();
    const client = newClient();
    for (const id of [client.id, `https://shared.${DOMAIN}/acme/x.json`])
      expect(isAsked(await visit({ ...client, id })), id).to.equal(true);
    const connections = host.connections();
    for (const id of [
      `https://shared.${DOMAIN}/evil/x.json`,
      `https://shared.${DOMAIN}/acme.json`,
      `https://shared.${DOMAIN}/acme/../evil/x.json`,
      `https://shared.${DOMAIN}/acme/%2e%2e/evil/x.json`,
      `https://other.${DOMAIN}/acme/x.json`,
      `https://xapp.${DOMAIN}/x.json`,
      `https://app.${DOMAIN}.evil.example/x.json`,
    ])
      expect(requirePage(await visit({ ...client, id })).status, id).to.equal(400);
    expect(host.connections()).to.equal(connections);
  });

  it('CIM-15 a path that servers may interpret differently is not below a listed path', async () => {
    const { host, newClient, visit } = publishing();
    const client = newClient();
    const connections = host.connections();
    for (const path of [
      '/acme/..%2fevil/x.json',
      '/acme/..%2Fevil/x.json',
      '/acme%2f..%2fevil/x.json',
      '/acme/..%5cevil/x.json',
      '/acme/..%5Cevil%5Cx.json',
      '/acme/%2e%2e%2fevil/x.json',
      '/acme/.%2E/evil/x.json',
      '/acme/x%2ejson',
      '/acme/..%252fevil/x.json',
      '/acme/%252e%252e/evil/x.json',
      '/acme/%25252e%25252e%25252fevil/x.json',
      '/acme/..;/evil/x.json',
      '/acme/..;v=1/evil/x.json',
      '/acme/..%3b/evil/x.json',
      '/acme/..%00/evil/x.json',
      '/acme/x.json%00',
      '/acme/..%20/evil/x.json',
      '/acme/.../evil/x.json',
      '/acme//evil/x.json',
      '/acme/..%c0%afevil/x.json',
      '/acme/%c0%ae%c0%ae/evil/x.json',
      '/acme/..%ef%bc%8fevil/x.json',
      '/acme/..／evil/x.json',
      '/acme/‥/evil/x.json',
      '/acme/..%u002fevil/x.json',
      '/acme/x%',
      '/acme/x%zz',
      '/ACME/x.json',
      '/%61cme\\evil/x.json',
    ]) {
      const id = `https://shared.${DOMAIN}${path}`;
      expect(requirePage(await visit({ ...client, id })).status, id).to.equal(400);
    }
    for (const authority of [
      `shared.${DOMAIN}.`,
      `shared.${DOMAIN}:443`,
      `shared.${DOMAIN}:8443`,
      `SHARED.${DOMAIN}`,
      `shared%2e${DOMAIN}`,
      `shared.${DOMAIN}@other.${DOMAIN}`,
      `other.${DOMAIN}@shared.${DOMAIN}`,
      `shаred.${DOMAIN}`,
    ]) {
      const id = `https://${authority}/acme/x.json`;
      expect(requirePage(await visit({ ...client, id })).status, id).to.equal(400);
    }
    expect(host.connections()).to.equal(connections);
  });

  it('CIM-15 an unambiguous percent-encoding is compared decoded', async () => {
    const { newClient, visit } = publishing();
    const client = newClient();
    for (const path of [
      '/%61cme/y.json',
      '/acme/a-b_c~d/%7eada.json',
      '/acme/gr%C3%BC%C3%9Fe.json',
    ])
      expect(
        isAsked(await visit({ ...client, id: `https://shared.${DOMAIN}${path}` })),
        path,
      ).to.equal(true);
  });

  it('CIM-15 a listed path ends with a slash and has no escapes and no dot segments', () => {
    for (const path of ['acme', 'acme/../', './acme/', '.../', 'ac%2fme/', 'acme//', 'acme;v/'])
      expect(
        wrongSettings({ clients: { metadataDocumentHosts: [`x.example/${path}`] } }),
        path,
      ).to.include('clients.metadataDocumentHosts[0]');
  });

  it('CIM-10 a client of a host where anybody may publish is shown as not verified', async () => {
    const { system, connector } = publishing();
    const { server } = await discover(connector.link);
    const client = { id: shared, method: 'none', redirectUri: 'http://localhost:1/cb' } as const;
    const browser = openBrowser(system.origins);
    const { url, verifier } = authorizeUrl(server, client, { resource: connector.link });
    const page = await browser.openConsent(url);
    expect(page.html)
      .to.match(/not verified/i)
      .and.not.match(/identified by this address/i);
    const callback = requireExternalRedirect(await browser.submit(page, { decision: 'approve' }));
    await exchange(server, client, { callback, verifier });
    const { html } = requirePage(await browser.visit(`${system.auth}/account`));
    expect(html)
      .to.include('localhost:1')
      .and.not.match(/identified by this address/i);
  });

  it("CIM-10 a host that serves many customers' buckets does not identify a client", () => {
    for (const host of [
      's3.amazonaws.com',
      's3-us-west-2.amazonaws.com',
      's3.us-west-2.amazonaws.com',
      's3.dualstack.us-west-2.amazonaws.com',
      's3-fips.dualstack.us-gov-west-1.amazonaws.com',
      's3.cn-north-1.amazonaws.com.cn',
    ])
      expect(isIdentifiedByHost(`https://${host}/bucket/app.json`), host).to.equal(false);
    for (const host of ['acme.s3.amazonaws.com', 's3.example.com', 's3.amazonaws.com.example'])
      expect(isIdentifiedByHost(`https://${host}/app.json`), host).to.equal(true);
  });

  it('CIM-14 settings with a private or local document host are refused', () => {
    for (const host of [
      'localhost',
      '127.0.0.1',
      '[::1]',
      'http://x.example',
      'x.example:8443',
      '*',
    ])
      expect(wrongSettings({ clients: { metadataDocumentHosts: [host] } }), host).to.include(
        'clients.metadataDocumentHosts[0]',
      );
    expect(wrongSettings({ clients: { allowPrivateDocuments: true } })).to.include(
      'clients.allowPrivateDocuments',
    );
  });
});
