import { expect } from 'chai';
import { accessTo, gatehouse } from './command-line.ts';
import { type ManagementHost, KEYS, openManagementHost, request } from './management-host.ts';

describe('management keys with roles', () => {
  let host: ManagementHost;
  before(async () => {
    host = await openManagementHost();
  });
  after(() => host.close());

  const as = (role: keyof typeof KEYS) => ({ headers: { Authorization: `Bearer ${KEYS[role]}` } });
  const send = (role: keyof typeof KEYS, method: string, path: string, body?: object) =>
    request(host, method, `/api/v1${path}`, { ...as(role), ...(body ? { body } : {}) });
  const lastChange = async () =>
    ((await send('viewer', 'GET', '/audit?order=newest&limit=1')).body['items'] as object[])[0];

  it('ROL-05 the audit log names the key that made each change', async () => {
    const connector = { name: 'Ops', level: 'operations' };
    const { id } = (await send('operator', 'POST', '/connectors', connector)).body;
    expect(await lastChange()).to.include({ event: 'connector_created', by: 'key:operator' });
    await send('administrator', 'DELETE', `/connectors/${String(id)}`);
    expect(await lastChange()).to.include({ event: 'connector_revoked', by: 'key:default' });
    await send('operator', 'POST', `/connectors/${String(id)}/delete`);
    expect(await lastChange()).to.include({ event: 'connector_deleted', by: 'key:operator' });
    const minted = await send('operator', 'POST', '/tokens', { name: 'T', level: 'analytics' });
    expect(await lastChange()).to.include({ event: 'token_minted', by: 'key:operator' });
    await send('operator', 'DELETE', `/tokens/${String(minted.body['id'])}`);
    expect(await lastChange()).to.include({ event: 'token_revoked', by: 'key:operator' });
    await send('administrator', 'POST', '/keys/rotate');
    expect(await lastChange()).to.include({ event: 'signing_key_rotated', by: 'key:default' });
  });

  it('ROL-06 nothing that a viewer can read contains a token or a key', async () => {
    const { body } = await send('operator', 'POST', '/tokens', { name: 'T', level: 'analytics' });
    const document = (await send('viewer', 'GET', '/openapi.json')).body;
    type Read = {
      security: [{ managementKey: [string] }];
      parameters?: { required?: boolean }[];
    };
    type Methods = { get?: Read };
    const needsMore = ({ parameters = [] }: Read) => parameters.some(({ required }) => required);
    const paths = Object.entries(document['paths'] as Record<string, Methods>)
      .filter(
        ([path, { get }]) =>
          get?.security[0].managementKey[0] === 'viewer' && !path.includes('{') && !needsMore(get),
      )
      .map(([path]) => path);
    expect(paths).to.include.members(['/tokens', '/export', '/audit']);
    for (const path of paths) {
      const { status, body: read } = await send('viewer', 'GET', path);
      expect(status, path).to.equal(200);
      for (const secret of [String(body['token']), ...Object.values(KEYS)])
        expect(JSON.stringify(read), path).not.to.include(secret);
    }
  });

  it('a viewer may read the metrics, and nobody may without a key', async () => {
    const metrics = (headers: Record<string, string>) => fetch(`${host.url}/metrics`, { headers });
    expect((await metrics(as('viewer').headers)).status).to.equal(200);
    expect((await metrics({})).status).to.equal(401);
    expect((await metrics({ Authorization: `Bearer ${KEYS.viewer}x` })).status).to.equal(401);
  });

  it('ADM-03 ROL-01 the command line works with any key, and says which role a command needs', async () => {
    const viewer = accessTo(host, KEYS.viewer);
    expect((await gatehouse(['connector', 'list'], viewer)).code).to.equal(0);
    const create = ['connector', 'create', '--name', 'Ops', '--level', 'operations'];
    const { code, stdout, stderr } = await gatehouse(create, viewer);
    expect({ code, stdout }).to.deep.equal({ code: 1, stdout: '' });
    expect(stderr).to.include(
      'this requires the role operator, and key:viewer has the role viewer',
    );
    expect((await gatehouse(create, accessTo(host, KEYS.operator))).code).to.equal(0);
  });
});
