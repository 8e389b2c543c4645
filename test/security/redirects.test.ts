// What is sent to a redirect address (RFC 9700 section 4.11): nothing before a person acted, and a code in the query.
import { expect } from 'chai';
import { describePage, openBrowser, requireExternalRedirect } from '../support/browser.ts';
import { REDIRECT_URI } from '../support/connection.ts';
import { cookieHeader } from '../support/cookie-jar.ts';
import { fillForm } from '../support/html-forms.ts';
import { authorizeUrl, type Parameters } from '../support/oauth.ts';
import { publishedClient, useRedirects } from '../support/redirects.ts';

describe('A redirect address', () => {
  const { system, target, newClient, authorizationUrl, expectErrorPage, registerRedirects } =
    useRedirects();

  const MISTAKES: [string, Parameters][] = [
    ['that may not ask anything', { prompt: 'none' }],
    ['for another kind of answer', { response_type: 'bogus' }],
    ['for a token', { response_type: 'token' }],
    ['with quotes in the scope', { scope: '"' }],
    ['for a resource that is nothing', { resource: 'https://evil.example/x' }],
    ['without a resource', { resource: undefined }],
    ['without a challenge', { code_challenge: undefined, code_challenge_method: undefined }],
    ['with a request object', { request: 'e30.e30.' }],
    ['with a request object elsewhere', { request_uri: 'https://evil.example/request' }],
    ['with two states', { state: ['a', 'b'] }],
    ['with an answer in the fragment', { response_mode: 'fragment' }],
  ];

  it('RED-07 of nobody is sent nothing, whatever else is wrong', async () => {
    const client = await newClient();
    for (const [, mistake] of [['', {}] as const, ...MISTAKES]) {
      const evil = { redirect_uri: 'https://evil.example/cb', ...mistake };
      await expectErrorPage(authorizationUrl(client, evil));
      await expectErrorPage(authorizationUrl({ ...client, id: 'nobody' }, evil));
      await expectErrorPage(authorizationUrl(publishedClient('https://nobody.invalid/'), evil));
    }
  });

  it('RED-08 of a stranger is sent no mistake before the person acted, signed in or not', async () => {
    const client = await newClient();
    const browser = openBrowser(system().origins);
    await browser.authorize(authorizationUrl(client));
    const cookie = cookieHeader(browser.jar, authorizationUrl(client));
    expect(cookie).to.include('session');
    for (const [, mistake] of MISTAKES.filter(([, { scope }]) => scope === undefined)) {
      await expectErrorPage(authorizationUrl(client, mistake));
      await expectErrorPage(authorizationUrl(client, mistake), cookie);
    }
  });

  it('RED-08 of a stranger is told of a refusal once the person pressed Deny', async () => {
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

  it('RED-09 is never reached by passing on a form: every form is answered with 303', async () => {
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

  it('RED-11 is not changed by a parameter sent twice', async () => {
    const client = await newClient();
    const once: Record<string, string> = {
      redirect_uri: client.redirectUri,
      client_id: client.id,
      state: 'a',
      scope: 'operations',
      response_type: 'code',
      code_challenge_method: 'S256',
    };
    for (const [name, value] of Object.entries(once)) {
      await expectErrorPage(authorizationUrl(client, { [name]: [value, value] }));
      await expectErrorPage(
        authorizationUrl(client, { [name]: [value, 'https://evil.example/cb'] }),
      );
    }
  });

  it('RED-11 keeps its own query, and gets ours once', async () => {
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

  it('RED-12 is answered with a code in its query, and in no other way', async () => {
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
