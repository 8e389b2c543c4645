// What holds for every operation of the API and every command, by their tables.
import { expect } from 'chai';
import { OPERATIONS } from '../../src/management/api/operations.ts';
import { accountCommands } from '../../src/management/resources/account.ts';
import { clientCommands } from '../../src/management/resources/client.ts';
import { connectorCommands } from '../../src/management/resources/connector.ts';
import { grantCommands } from '../../src/management/resources/grant.ts';
import type { Operation } from '../../src/management/resources/resource.ts';
import { tokenCommands } from '../../src/management/resources/token.ts';
import { upstreamCommands } from '../../src/management/resources/upstream.ts';
import { accessTo, gatehouse } from './command-line.ts';
import { type ManagementHost, openManagementHost, request } from './management-host.ts';

const ALL = Object.entries<Operation>(OPERATIONS);
const COMMANDS = [
  accountCommands,
  clientCommands,
  connectorCommands,
  grantCommands,
  tokenCommands,
  upstreamCommands,
].flatMap(({ noun, commands }) => commands.map((command) => ({ noun, ...command })));
/** Parameters that few lists have. */
const WRONG: Record<string, string[]> = {
  listConnectors: ['state=gone'],
  listGrants: ['state=gone', 'connector='],
  listAudit: ['since=yesterday', 'since=2020-01-01', 'event=nothing'],
};
/** Of operations that need members. */
const BODIES: Record<string, object> = {
  resendAudit: { since: '2030-01-31T00:00:00Z' },
  approveUpstream: { tools: [{ name: 'search', digest: 'A'.repeat(43) }] },
};
const UNKNOWN = ['x', '__proto__', '%E0%A4%A', 'A'.repeat(22), 'A'.repeat(27), '0'.repeat(32)];

describe('an operation of the management API without records', () => {
  let host: ManagementHost;
  before(async () => {
    host = await openManagementHost();
  });
  after(() => host.close());

  const lists = ALL.filter(
    ([, { method, query, stream }]) =>
      method === 'get' && query && 'limit' in query.shape && stream === undefined,
  );
  const send = async (method: string, path: string, body?: unknown) => {
    const answer = await request(host, method.toUpperCase(), `/api/v1${path}`, { body });
    return [answer.status, answer.body['error']];
  };

  afterEach('nothing is recorded', async () => {
    expect((await request(host, 'GET', '/api/v1/audit')).body).to.deep.equal({ items: [] });
  });

  for (const [name, { method, path }] of lists) {
    it(`${name} returns an empty page without \`next\``, async () => {
      const { body } = await request(host, method, `/api/v1${path}`);
      expect(body).to.deep.equal({ items: [] });
    });

    it(`${name} refuses invalid and unknown query parameters`, async () => {
      const limits = ['0', '1001', 'many', '-1', '1&limit=2'].map((limit) => `limit=${limit}`);
      for (const search of [...limits, 'after=', 'page=2', ...(WRONG[name] ?? [])])
        expect(await send(method, `${path}?${search}`), search).to.deep.equal([
          400,
          'invalid_request',
        ]);
    });
  }

  for (const [name, { method, path, body }] of ALL.filter(([, { path }]) => path.includes(':id')))
    it(`${name} answers 404 for an unknown id`, async () => {
      for (const id of UNKNOWN)
        expect(
          await send(method, path.replace(':id', id), body ? (BODIES[name] ?? {}) : undefined),
          id,
        ).to.deep.equal([404, 'not_found']);
    });

  for (const name of ['revokeClient', 'allowClient', 'replaceMachineKey', 'updateMachine'] as const)
    it(`${name} answers 404 for an unknown id in the body`, async () => {
      for (const id of UNKNOWN)
        expect(
          await send(OPERATIONS[name].method, OPERATIONS[name].path, { id }),
          id,
        ).to.deep.equal([404, 'not_found']);
    });

  for (const [name, { method, path }] of ALL.filter(([, each]) => each.method !== 'get'))
    it(`${name} refuses a query parameter that it does not have, and changes nothing`, async () => {
      const [status, code] = await send(method, `${path}?dryrun=true`, BODIES[name] ?? {});
      expect([status, code]).to.deep.equal([400, 'invalid_request']);
    });

  for (const [name, { method, path }] of ALL.filter(([, { body }]) => body))
    it(`${name} refuses a body with an unknown member, or that is no object`, async () => {
      for (const body of [{ unheard: true }, [], null, 'text'])
        expect(await send(method, path, body), JSON.stringify(body)).to.deep.equal([
          400,
          'invalid_request',
        ]);
    });

  for (const command of COMMANDS.filter((each) => 'empty' in each)) {
    const words = [command.noun, command.name];
    it(`gatehouse ${words.join(' ')} says that there are none`, async () => {
      const { code, stdout } = await gatehouse(words, accessTo(host));
      expect(code).to.equal(0);
      expect(stdout).to.match(/^(There (are|is) no|Nobody has)/);
      const json = await gatehouse([...words, '--json'], accessTo(host));
      expect(JSON.parse(json.stdout)).to.deep.equal({ items: [] });
    });
  }

  for (const { noun, name } of COMMANDS.filter(({ argument }) => argument))
    it(`gatehouse ${noun} ${name} fails for what is not there`, async () => {
      for (const argument of ['nonsense', '../audit', '..', '']) {
        const words = [noun, name, argument, '--json'];
        const { code, stdout, stderr } = await gatehouse(words, accessTo(host));
        expect({ code, stdout }, argument).to.deep.equal({ code: 1, stdout: '' });
        expect(JSON.parse(stderr).error, argument).to.equal('not_found');
      }
    });
});
