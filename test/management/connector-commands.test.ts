// The command `connector delete`: what was revoked is forgotten, and what still works only when somebody says so.
import { expect } from 'chai';
import { createConnector, findConnector } from '../../src/connectors/connectors.ts';
import { accessTo, gatehouse } from './command-line.ts';
import { type ManagementHost, openManagementHost } from './management-host.ts';

describe('connector delete', () => {
  let host: ManagementHost;
  before(async () => {
    host = await openManagementHost();
  });
  after(() => host.close());

  const run = (...args: string[]) => gatehouse(args, accessTo(host));
  const create = () => createConnector(host.store, { name: 'Ops', level: 'admin' }, 1);

  it('forgets a connector that was revoked, once', async () => {
    const { id } = await create();
    await run('connector', 'revoke', id);
    const { code, stdout } = await run('connector', 'delete', id);
    expect(code).to.equal(0);
    expect(stdout).to.include(`Deleted "Ops" (${id})`);
    expect(await findConnector(host.store, id)).to.equal(undefined);
    const again = await run('connector', 'delete', id);
    expect(again).to.include({
      code: 1,
      stderr: 'gatehouse: there is no connector with this id\n',
    });
  });

  it('leaves one that works, and says what to do; with --yes it revokes and deletes', async () => {
    const { id } = await create();
    const { code, stderr } = await run('connector', 'delete', id);
    expect(code).to.equal(1);
    expect(stderr).to.include('this connector still works: revoke it first');
    expect(await findConnector(host.store, id)).to.not.have.key('revokedAt');
    const deleted = JSON.parse((await run('connector', 'delete', id, '--yes', '--json')).stdout);
    expect(deleted).to.include({ id, state: 'revoked' });
    expect(await findConnector(host.store, id)).to.equal(undefined);
  });
});
