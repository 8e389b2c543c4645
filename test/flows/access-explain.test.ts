// What commands and pages say about the access of a person.
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { accessTo, gatehouse } from '../management/command-line.ts';
import { connect } from '../support/connection.ts';
import { useConsole } from '../support/console.ts';
import { createConnector, requestManagement, revokeConnector } from '../support/management-api.ts';

describe('The access of a person', () => {
  const { system, signIn } = useConsole();
  const run = async (...args: string[]) => {
    const { management, managementKey } = system();
    const { code, stdout, stderr } = await gatehouse(
      args,
      accessTo({ url: management }, managementKey),
    );
    expect([code, stderr]).to.deep.equal([0, '']);
    return stdout;
  };
  const explain = async (...args: string[]) =>
    JSON.parse(await run('access', 'explain', ...args, '--json'));

  it('it is explained for somebody who never signed in, with the rules that do not match and why', async () => {
    const connector = await createConnector(system(), {
      name: 'Analysts only',
      audience: [{ group: 'analysts' }],
    });
    const given = ['--email', 'new@example.com', '--connector', connector.id];
    const refused = await explain(...given, '--groups', 'Staff, analysts');
    expect(refused).to.deep.include({
      provider: 'development',
      entitlements: [
        {
          rule: 'entitlements[0]',
          kind: 'subject',
          value: 'ada',
          level: 'full',
          miss: 'other_subject',
        },
        {
          rule: 'entitlements[1]',
          kind: 'group',
          value: 'staff',
          level: 'operations',
          miss: 'not_in_group',
        },
      ],
    });
    expect(refused.access[0]).to.include({ level: null, reason: 'no_rule' });
    const outside = await explain(...given, '--groups', 'staff');
    expect(outside.access[0]).to.include({ level: null, reason: 'not_in_audience' });
    expect(outside.access[0].audience[0]).to.include({ rule: 'audience[0]', miss: 'not_in_group' });
    const inside = await explain(...given, '--groups', 'staff,analysts');
    expect(inside.access[0]).to.include({ level: 'operations', rule: 'entitlements[1]' });
    const text = await run('access', 'explain', ...given);
    expect(text).to.include('Analysts only').and.include('no access, no_rule');
    expect(text).to.include(
      'entitlements[1] (group staff) gives operations: no match, the provider sent no groups',
    );
  });

  it('the account has the claims that arrived last, and for each connector the level and its rule, or the reason', async () => {
    const open = await createConnector(system(), { level: 'full' });
    const closed = await createConnector(system());
    const { accessToken } = await connect(system(), open, { person: 'grace' });
    await revokeConnector(system(), closed.id);
    const id = String(decodeJwt(accessToken).sub);
    const shown = await requestManagement(system(), 'GET', `/accounts/${id}`);
    expect(shown)
      .to.have.property('claims')
      .that.deep.includes({
        name: 'Grace Hopper',
        email: 'grace@example.com',
        emailVerified: true,
        groups: ['staff'],
        provider: 'development',
      });
    const { access } = shown as { access: { connector: string }[] };
    const of = ({ id: wanted }: { id: string }) =>
      access.find(({ connector }) => connector === wanted);
    expect(of(open)).to.include({ level: 'operations', rule: 'entitlements[1]' });
    expect(of(closed)).to.include({ level: null, reason: 'connector_revoked' });
    const text = await run('account', 'show', 'grace@example.com');
    expect(text).to.match(/groups +staff/);
    expect(text).to.include('operations, by entitlements[1]');
    expect(text).to.include('no access, connector_revoked. The connector was revoked.');
    const { page } = await signIn(`/accounts/${id}`);
    expect(page.html).to.include('What this person gets').and.include('entitlements[1]');
    expect(page.html).to.include('The connector was revoked.');
  });

  it('the page of a connector says how many known people its audience matches', async () => {
    const { id } = await createConnector(system(), { audience: [{ group: 'Staff' }] });
    const { page } = await signIn(`/connectors/${id}`);
    expect(page.html).to.match(/0 of [1-9]\d* people who have signed in\. If someone should match/);
  });

  it('a provider that does not exist is refused with those that do', async () => {
    const { management, managementKey } = system();
    const { code, stderr } = await gatehouse(
      ['access', 'explain', '--email', 'new@example.com', '--provider', 'nobody'],
      accessTo({ url: management }, managementKey),
    );
    expect(code).to.equal(1);
    expect(stderr).to.include('provider: expected one of development');
  });
});
