import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { accessTo, gatehouse } from '../management/command-line.ts';
import { openBrowser, type Page, requirePage } from '../support/browser.ts';
import { advanceClock, restoreClock } from '../support/clock.ts';
import { createConnector, readAudit, requestManagement } from '../support/management-api.ts';
import { isAccepted } from '../support/mcp.ts';
import { type LogLine, startSystem, type System } from '../support/system.ts';
import {
  exchangeJwt,
  type Members,
  type Platform,
  startPlatform,
} from '../support/workload-platform.ts';

describe('Workloads in the command line and the console', () => {
  let platform: Platform;
  let system: System;
  let link = '';
  let other = '';
  const log: LogLine[] = [];
  before(async () => {
    platform = await startPlatform();
    const rule = (id: string, connector: string, claims: object) => {
      return { id, match: { subject: 'job:*', claims }, connector, level: 'operations' };
    };
    const workloads = [
      rule('main', 'Jobs', { ref: 'refs/heads/main' }),
      rule('tagged', 'Others', { ref: 'refs/tags/*' }),
      rule('nowhere', 'Gone', { ref: 'refs/heads/main' }),
    ];
    const trusted = { id: 'ci', issuer: platform.issuer, workloads, singleUse: true };
    const file = {
      authorization: { trustedIssuers: [trusted] },
      management: { administrators: [{ email: 'ada@example.com' }] },
    };
    system = await startSystem({ file, log });
    link = (await createConnector(system, { name: 'Jobs' })).link;
    other = (await createConnector(system, { name: 'Others' })).link;
  });
  after(async () => {
    await system?.stop();
    await platform?.stop();
  });
  afterEach(restoreClock);

  const now = () => Math.floor(Date.now() / 1000);
  const signed = (changed: Members = {}, header: Members = {}) =>
    platform.sign(
      {
        iss: platform.issuer,
        sub: 'job:42',
        aud: system.auth,
        iat: now(),
        exp: now() + 300,
        ref: 'refs/heads/main',
        ...changed,
      },
      header,
    );
  const run = (...args: string[]) =>
    gatehouse(args, accessTo({ url: system.management }, system.managementKey));

  async function test(assertion: string, ...more: string[]) {
    const file = join(system.dataDir, 'jwt');
    writeFileSync(file, `${assertion}\n`);
    return run('workload', 'test', '--token-file', file, ...more);
  }

  it('WIF-16 workload test shows every check of a JWT and every rule, and the JWT stays usable', async () => {
    const assertion = await signed();
    const { code, stdout, stderr } = await test(assertion);
    expect([code, stderr]).to.deep.equal([0, '']);
    expect(stdout).to.match(/^ok {5}alg "ES256"$/m);
    expect(stdout).to.include(`ok     aud "${system.auth}"`);
    expect(stdout).to.match(/^ok {5}signature$/m);
    expect(stdout).to.include(`ok     rule ci:main ${link}`);
    expect(stdout).to.include(`fails  rule ci:tagged ${other}: a claim does not match`);
    expect(stdout).to.include('ref is "refs/heads/main", and must be refs/tags/*');
    expect(stdout).to.include('fails  rule ci:nowhere: its connector does not exist');
    expect(stdout).to.match(/It would get a token\.\n$/);
    for (const part of assertion.split('.')) expect(stdout).to.not.include(part);
    expect((await exchangeJwt(system.auth, { assertion, resource: link })).status).to.equal(200);
    const again = await test(assertion, '--resource', link);
    expect(again.code).to.equal(1);
    expect(again.stdout).to.include('fails  single use: the assertion was already used');
    expect(again.stdout).to.not.include('ci:tagged');
  });

  it('WIF-16 workload test names each check that fails, also if several do', async () => {
    const wrong = {
      aud: [system.auth, 'https://other.example'],
      exp: now() - 300,
      iat: now() - 40_000,
      sub: 'somebody',
    };
    const { code, stdout } = await test(await signed(wrong, { typ: 'at+jwt', kid: 'unknown' }));
    expect(code).to.equal(1);
    expect(stdout).to.match(/^fails {2}typ "at\+jwt": /m);
    expect(stdout).to.match(/^fails {2}aud .*: the assertion is not for this/m);
    expect(stdout).to.match(/^fails {2}exp /m);
    expect(stdout).to.match(/^fails {2}lifetime /m);
    expect(stdout).to.match(/^fails {2}signature: the issuer publishes no key with its kid$/m);
    expect(stdout).to.include('sub is "somebody", and must be job:*');
    expect(stdout).to.match(/It would get no token\.\n$/);
  });

  it('WIF-16 workload test explains a JWT of another issuer, a forged one, keys that cannot be fetched, and no JWT', async () => {
    const foreign = await test(await signed({ iss: `${platform.issuer}/` }));
    expect(foreign.stdout).to.include('fails  iss');
    expect(foreign.stdout).to.include('not trusted for workloads');
    const [head, , signature] = (await signed()).split('.');
    const body = Buffer.from(
      JSON.stringify({ iss: platform.issuer, sub: 'job:1', ref: 'refs/heads/main' }),
    );
    const forged = await test([head, body.toString('base64url'), signature].join('.'));
    expect(forged.stdout).to.match(/^fails {2}signature: .*not signed with a published key/m);
    platform.fail(true);
    const down = await test(await signed());
    platform.fail(false);
    expect(down.stdout).to.match(/^fails {2}signature: .*cannot be fetched: .* answered 500$/m);
    const none = await test('this is no token');
    expect([none.code, none.stdout]).to.deep.equal([1, '']);
    expect(none.stderr).to.include('a signed JWT').and.to.not.include('this is no token');
    const missing = await run('workload', 'test', '--token-file', '/no/such/file');
    expect(missing.stderr).to.include('cannot be read (ENOENT)');
  });

  it('WIF-16 a JWT is neither in the log nor in the audit log', async () => {
    const assertion = await signed({ jti: 'quiet' });
    await test(assertion);
    await exchangeJwt(system.auth, { assertion, resource: other });
    await exchangeJwt(system.auth, { assertion, resource: link });
    const written = JSON.stringify([log, await readAudit(system)]);
    expect(written).to.include('ci:main');
    for (const part of assertion.split('.')) expect(written).to.not.include(part);
  });

  it('WIF-07 the command line lists rules with their last subject, and pauses, resumes and ends them', async () => {
    const claims = { ref: 'refs/tags/v1', jti: 'tagged' };
    const { body } = await exchangeJwt(system.auth, {
      assertion: await signed(claims),
      resource: other,
    });
    const token = String(body['access_token']);
    const list = await run('workload', 'list');
    expect(list.stdout).to.match(/^ci:tagged +active +Others +operations +never +job:42$/m);
    const paused = await run('workload', 'pause', 'ci:tagged');
    expect(paused.stdout).to.match(/^Paused\.$/m);
    expect(await isAccepted(other, token)).to.equal(false);
    const resumed = await run('workload', 'resume', 'ci:tagged');
    expect(resumed.stdout)
      .to.match(/^Resumed\.$/m)
      .and.match(/active/);
    const ended = await run('workload', 'end', 'ci:tagged');
    expect(ended.stdout).to.match(/^Ended\.$/m);
    const again = await run('workload', 'resume', 'ci:tagged');
    expect(again.code).to.equal(1);
    expect(again.stderr).to.include('this rule was ended');
    const late = await exchangeJwt(system.auth, {
      assertion: await signed({ ...claims, jti: 'late' }),
      resource: other,
    });
    expect(late.body['error']).to.equal('invalid_target');
  });

  async function openConsole() {
    const browser = openBrowser([...system.origins, system.management]);
    const address = `${system.management}/console/workloads`;
    await browser.submit(requirePage(await browser.visit(address)), { person: 'ada' });
    const open = async () => requirePage(await browser.visit(address));
    const press = async (page: Page, path: string) => {
      const form = page.forms.find(({ action, controls }) => {
        const isRule = controls.some(({ name, value }) => name === 'id' && value === 'ci:main');
        return action.href === `${address}/${path}` && isRule;
      });
      if (!form) throw new Error(`there is no form for ${path}`);
      const fields = form.controls.map(({ name, value }) => [name, value] as [string, string]);
      return requirePage(await browser.post(page, form.action, new URLSearchParams(fields)));
    };
    return { browser, open, press };
  }

  it('WIF-07 the console lists rules with their last subjects, and pauses, resumes and ends them', async () => {
    const { body } = await exchangeJwt(system.auth, { assertion: await signed(), resource: link });
    const token = String(body['access_token']);
    const { browser, open, press } = await openConsole();
    const used = await signed({ jti: 'used' });
    for (let n = 0; n < 2; n += 1)
      await exchangeJwt(system.auth, { assertion: used, resource: link });
    const page = await open();
    expect(page.html).to.include('ci:main').and.include('job:42').and.include(platform.issuer);
    const paused = await press(page, 'pause');
    expect(paused.html).to.include('Rule paused.');
    expect(await isAccepted(link, token)).to.equal(false);
    const resumed = await press(paused, 'resume');
    expect(resumed.html).to.include('Rule resumed.');
    const next = await exchangeJwt(system.auth, { assertion: await signed(), resource: link });
    expect(await isAccepted(link, String(next.body['access_token']))).to.equal(true);
    const ended = await press(await open(), 'end');
    expect(ended.html).to.include('Rule ended.');
    const audit = requirePage(await browser.visit(`${system.management}/console/audit`));
    const text = audit.html.replaceAll(/<[^>]+>/g, '').replaceAll(/\s+/g, ' ');
    expect(text).to.match(/The workload main was connected to Jobs with access/);
    expect(text).to.match(/A workload of ci:main got a token for Jobs/);
    expect(text).to.match(/A workload of ci:main got no token for Jobs: its JWT was used before/);
    const { items } = (await requestManagement(system, 'GET', '/workloads')) as {
      items: Members[];
    };
    expect(items.find(({ id }) => id === 'ci:main')).to.include({ state: 'ended' });
    advanceClock(1);
    const late = await exchangeJwt(system.auth, { assertion: await signed(), resource: link });
    expect(late.body['error']).to.equal('invalid_target');
  });
});
