// Apps that an administrator keeps away from one person.
import { expect } from 'chai';
import { accessTo, gatehouse } from '../management/command-line.ts';
import { claimOf, grantIdOf } from '../support/account-page.ts';
import { openBrowser } from '../support/browser.ts';
import { connect, openConsent } from '../support/connection.ts';
import { formTokenIn, useConsole } from '../support/console.ts';
import { askForDevice, DEVICE_CODE, enterCode } from '../support/device.ts';
import { createConnector, readAudit, requestManagement } from '../support/management-api.ts';
import { isAccepted } from '../support/mcp.ts';
import { register, refresh } from '../support/oauth.ts';
import { until } from '../support/until.ts';

const KEPT_OUT = 'An administrator keeps this app away from your account.';

describe('CNX-17 An app that is kept out', () => {
  const { system, consoleUrl, open, signIn, send } = useConsole();

  const run = async (...args: string[]) => {
    const { management, managementKey } = system();
    const { code, stdout, stderr } = await gatehouse(
      args,
      accessTo({ url: management }, managementKey),
    );
    expect(code, stderr).to.equal(0);
    return stdout;
  };
  const connectNew = async (person: 'ada' | 'grace' = 'ada') =>
    connect(system(), await createConnector(system()), {
      person,
      as: { browser: openBrowser(system().origins) },
    });
  const openNew = async (person: 'ada' | 'grace' = 'ada') =>
    openConsent(system(), await createConnector(system()), {
      person,
      as: { browser: openBrowser(system().origins) },
    });
  /** Test clients have the same name and redirect to this computer. */
  const allowAll = async (account: string) => {
    const shown = await requestManagement(system(), 'GET', `/accounts/${account}`);
    for (const { id } of (shown as { keptOut: { id: string }[] }).keptOut)
      await run('grant', 'allow', id);
  };

  it('loses what it has of the person, and only the person is refused each app with its name and redirect host, until it is allowed', async () => {
    const [first, second] = [await connectNew(), await connectNew()];
    const bystander = await connectNew('grace');
    const id = grantIdOf(first);
    expect(await run('grant', 'revoke', id, '--keep-out')).to.include(
      `gatehouse grant allow ${id}`,
    );
    for (const connection of [first, second]) {
      await until(
        'the token to be refused',
        async () => !(await isAccepted(connection.link, connection.accessToken)),
      );
      const { body } = await refresh(connection.server, connection.client, connection.refreshToken);
      expect(body.error).to.equal('invalid_grant');
    }
    expect(await isAccepted(bystander.link, bystander.accessToken)).to.equal(true);

    const same = await openConsent(system(), first, {
      as: { browser: openBrowser(system().origins), client: first.client },
    });
    expect([same.page.status, same.page.html.includes(KEPT_OUT)]).to.deep.equal([403, true]);
    const renamed = await openNew();
    expect([renamed.page.status, renamed.page.html.includes(KEPT_OUT)]).to.deep.equal([403, true]);
    expect((await openNew('grace')).page.status).to.equal(200);
    const items = await readAudit(system());
    expect(items.filter(({ event }) => event === 'kept_out')).to.have.length(1);
    expect(items.findLast(({ event }) => event === 'access_refused')).to.include({
      reason: 'kept_out',
      clientId: renamed.client.id,
    });

    const account = claimOf(first, 'sub');
    expect(await run('account', 'show', account)).to.match(new RegExp(`Kept out:\\s+${id}`));
    await run('grant', 'allow', id);
    expect((await openNew()).page.status).to.equal(200);
    expect(await run('account', 'show', account)).to.not.include('Kept out:');
    const { body } = await refresh(first.server, first.client, first.refreshToken);
    expect(body.error).to.equal('invalid_grant');
    const ended = (await readAudit(system())).filter(({ event }) => event === 'kept_out_ended');
    expect(ended.map((item) => [item.grantId, item.account])).to.deep.equal([[id, account]]);
  });

  it('an approval that waits when the app is kept out is refused', async () => {
    const connection = await connectNew();
    const waiting = await openNew();
    expect(waiting.page.status).to.equal(200);
    await run('grant', 'revoke', grantIdOf(connection), '--keep-out');
    const step = await waiting.decide({ decision: 'approve' });
    expect(step.kind === 'page' && step.html.includes(KEPT_OUT)).to.equal(true);
    await allowAll(claimOf(connection, 'sub'));
  });

  it('gets nothing as a device', async () => {
    const { server, client, link, ...connection } = await connectNew();
    const { body } = await register(server, {
      client_name: 'Test client',
      redirect_uris: ['http://localhost:1/other'],
      grant_types: ['authorization_code', DEVICE_CODE],
      token_endpoint_auth_method: 'none',
    });
    const id = grantIdOf(connection);
    await run('grant', 'revoke', id, '--keep-out');
    const other = { ...client, id: body.client_id ?? '' };
    const { body: device } = await askForDevice(server, other, { resource: link });
    const page = await enterCode(
      openBrowser(system().origins),
      device.verification_uri,
      device.user_code,
    );
    expect([page.status, page.html.includes(KEPT_OUT)]).to.deep.equal([403, true]);
    await allowAll(claimOf(connection, 'sub'));
  });

  it('an app with another name, or with the name and other redirect hosts, is not kept out', async () => {
    const connection = await connectNew();
    const { server, client } = connection;
    await run('grant', 'revoke', grantIdOf(connection), '--keep-out');
    const page = async (name: string, redirectUri: string) => {
      const { body } = await register(server, {
        client_name: name,
        redirect_uris: [redirectUri],
        token_endpoint_auth_method: 'none',
      });
      const other = { ...client, id: body.client_id ?? '', redirectUri };
      const consent = await openConsent(system(), connection, {
        as: { browser: openBrowser(system().origins), client: other },
      });
      return consent.page.status;
    };
    expect(await page('Another app', String(client.redirectUri))).to.equal(200);
    expect(await page('Test client', 'https://claude.ai/api/mcp/auth_callback')).to.equal(200);
    expect(await page('TEST-client', 'http://localhost:9/cb')).to.equal(403);
    await allowAll(claimOf(connection, 'sub'));
  });

  it('is kept out and allowed again in the console, also on the page of the person', async () => {
    const connection = await connectNew('grace');
    const account = claimOf(connection, 'sub');
    const id = grantIdOf(connection);
    const { browser } = await signIn();
    const page = await open(browser, `/grants/${id}`);
    const token = formTokenIn(page);
    const after = await send(browser, page, '/grants/keep-out', { token, id });
    expect(after.html).to.include('App kept out.');
    const person = await open(browser, `/accounts/${account}`);
    expect(person.html).to.include('id="kept-out"').and.include('/console/grants/allow');
    const allowed = await send(browser, person, '/grants/allow', {
      token: formTokenIn(person),
      id,
      returnTo: `/console/accounts/${account}`,
    });
    expect(allowed.url.href).to.include(consoleUrl(`/accounts/${account}`));
    expect(allowed.html).to.not.include('id="kept-out"');
  });

  it('is an app of a person: that of a machine is refused, and nothing else can be allowed', async () => {
    const connector = await createConnector(system());
    const machine = await requestManagement(system(), 'POST', '/clients', {
      name: 'CI',
      connector: connector.id,
      level: 'analytics',
    });
    const { id, secret } = machine as { id: string; secret: string };
    await fetch(`${system().auth}/oauth/token`, {
      method: 'POST',
      headers: { authorization: `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}` },
      body: new URLSearchParams({
        grant_type: 'client_credentials',
        resource: connector.link,
      }),
    });
    const listed = await requestManagement(system(), 'GET', `/grants?client=${id}`);
    const grant = (listed as { items: { id: string }[] }).items[0]?.id ?? '';
    const failure = (method: string, path: string) =>
      requestManagement(system(), method, path).then(
        () => 'done',
        (error: Error) => error.message,
      );
    expect(await failure('DELETE', `/grants/${grant}?keepOut=true`)).to.include('400');
    expect(await failure('DELETE', `/grants/${grant}?keepOut=yes`)).to.include('true or false');
    expect(await failure('POST', `/grants/${grant}/allow`)).to.include('404');
  });
});
