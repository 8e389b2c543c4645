// Open redirects (RFC 9700 section 4.11).
import { expect } from 'chai';
import { describePage, openBrowser, requireExternalRedirect } from '../support/browser.ts';
import { REDIRECT_URI } from '../support/connection.ts';
import { cookieHeader } from '../support/cookie-jar.ts';
import { fillForm } from '../support/html-forms.ts';
import { authorizeUrl, challengeOf, type Parameters } from '../support/oauth.ts';
import { publishedClient, useRedirects } from '../support/redirects.ts';

describe('A redirect to the client', () => {
  const { system, target, newClient, authorizationUrl, expectErrorPage, registerRedirects } =
    useRedirects();

  const ERRORS: [string, Parameters][] = [
    ['with prompt=none', { prompt: 'none' }],
    ['with an unknown response type', { response_type: 'bogus' }],
    ['for a token', { response_type: 'token' }],
    ['with quotes in the scope', { scope: '"' }],
    ['for an unknown resource', { resource: 'https://evil.example/x' }],
    ['without a resource', { resource: undefined }],
    ['without a challenge', { code_challenge: undefined, code_challenge_method: undefined }],
    ['with a request object', { request: 'e30.e30.' }],
    ['with a request object by reference', { request_uri: 'https://evil.example/request' }],
    ['with two states', { state: ['a', 'b'] }],
    ['with response_mode=fragment', { response_mode: 'fragment' }],
    ['without a response type', { response_type: undefined }],
    ['with two prompts', { prompt: ['none', 'login'] }],
    ['for an empty resource', { resource: '' }],
    ['for a resource that is not a URL', { resource: 'urn:x' }],
  ];

  it('RED-07 an unknown client or redirect URI gets an error page and no redirect, whatever other errors there are', async () => {
    const client = await newClient();
    for (const [, error] of [['', {}] as const, ...ERRORS]) {
      const evil = { redirect_uri: 'https://evil.example/cb', ...error };
      await expectErrorPage(authorizationUrl(client, evil));
      await expectErrorPage(authorizationUrl({ ...client, id: 'nobody' }, evil));
      await expectErrorPage(authorizationUrl(publishedClient('https://nobody.invalid/'), evil));
      await expectErrorPage(authorizationUrl(client, { ...error, redirect_uri: undefined }));
      await expectErrorPage(authorizationUrl(client, { ...error, client_id: undefined }));
    }
  });

  it('RED-08 a self-registered client is sent no error before the person acts, signed in or not', async () => {
    const client = await newClient();
    const browser = openBrowser(system().origins);
    await browser.authorize(authorizationUrl(client));
    const cookie = cookieHeader(browser.jar, authorizationUrl(client));
    expect(cookie).to.include('session');
    for (const [, error] of ERRORS.filter(([, { scope }]) => scope === undefined)) {
      await expectErrorPage(authorizationUrl(client, error));
      await expectErrorPage(authorizationUrl(client, error), cookie);
    }
  });

  it('RED-08 a self-registered client is sent access_denied after the person denies', async () => {
    const { url, state } = authorizeUrl(target().server, await newClient(), {
      resource: target().connector.link,
    });
    const denied = await openBrowser(system().origins).authorize(url, { decision: 'deny' });
    expect(Object.fromEntries(denied.searchParams)).to.include({
      error: 'access_denied',
      state,
      iss: system().auth,
    });
  });

  it('RED-09 every consent form is answered with 303, which does not forward the form', async () => {
    const client = await newClient();
    for (const decision of ['approve', 'deny', 'switch'] as const) {
      const browser = openBrowser(system().origins);
      const page = await browser.openConsent(authorizationUrl(client));
      const form = page.forms.find(({ controls }) =>
        controls.some(({ name, value }) => name === 'decision' && value === decision),
      );
      if (!form) throw new Error(describePage(page));
      const { status } = await fetch(form.action, {
        method: 'POST',
        redirect: 'manual',
        headers: { cookie: cookieHeader(browser.jar, form.action) },
        body: fillForm(form, { decision }),
      });
      expect(status, decision).to.equal(303);
    }
  });

  it('RED-11 an authorization request with a repeated parameter gets an error page', async () => {
    const client = await newClient();
    const once: Record<string, string> = {
      redirect_uri: client.redirectUri,
      client_id: client.id,
      state: 'a',
      scope: 'operations',
      response_type: 'code',
      code_challenge_method: 'S256',
      code_challenge: challengeOf('a'),
    };
    for (const [name, value] of Object.entries(once)) {
      await expectErrorPage(authorizationUrl(client, { [name]: [value, value] }));
      await expectErrorPage(
        authorizationUrl(client, { [name]: [value, 'https://evil.example/cb'] }),
      );
    }
  });

  it('RED-11 the redirect URI keeps its query, and each response parameter is added once', async () => {
    const uri = 'http://127.0.0.1:7070/cb?tenant=1&decode=x';
    const client = await newClient('none', uri);
    const browser = openBrowser(system().origins);
    const page = await browser.openConsent(authorizationUrl(client, { state: 'ours' }));
    const { searchParams } = requireExternalRedirect(
      await browser.submit(page, { decision: 'approve' }),
    );
    const names = ['tenant', 'decode', 'code', 'state', 'iss'];
    expect([...searchParams.keys()]).to.have.members(names);
    expect([...searchParams.entries()]).to.deep.include.members([
      ['tenant', '1'],
      ['state', 'ours'],
      ['iss', system().auth],
    ]);
  });

  it('RED-12 the only response type is a code in the query', async () => {
    const client = await newClient();
    for (const more of [
      ...['id_token', 'token', 'none', 'code id_token', 'code token'].map((response_type) => ({
        response_type,
      })),
      ...['fragment', 'form_post', 'web_message', 'jwt', 'query.jwt'].map((response_mode) => ({
        response_mode,
      })),
    ])
      await expectErrorPage(authorizationUrl(client, more));
    const { status, body } = await registerRedirects([REDIRECT_URI], {
      response_types: ['id_token', 'token'],
      grant_types: ['implicit'],
    });
    expect([status, body.response_types]).to.deep.equal([201, ['code']]);
    expect(target().server.response_types_supported).to.deep.equal(['code']);
    expect(target().server.response_modes_supported).to.deep.equal(['query']);
  });
});
