import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { exportJWK, generateKeyPair } from 'jose';
import { parse, stringify } from 'yaml';
import type { Applied } from '../../src/management/resources/apply.ts';
import { useCommandLine } from './command-line.ts';
import { request } from './management-host.ts';

const IN_A_MONTH = new Date((Math.floor(Date.now() / 1000) + 30 * 86_400) * 1000).toISOString();

async function publicKeys(): Promise<{ keys: object[] }> {
  const { publicKey } = await generateKeyPair('ES256', { extractable: true });
  return { keys: [await exportJWK(publicKey)] };
}

describe('gatehouse apply', () => {
  const { host, run, json } = useCommandLine();
  let file: Record<string, Record<string, unknown>[]>;
  beforeEach(async () => {
    file = {
      connectors: [
        { key: 'ops', name: 'Ops', level: 'operations', maxUses: 5, expiresAt: IN_A_MONTH },
        {
          key: 'analysts',
          name: 'Analysts',
          level: 'analytics',
          audience: [{ emailDomain: 'example.com' }],
          paused: true,
        },
      ],
      machines: [
        {
          key: 'ci',
          name: 'CI',
          connector: 'ops',
          level: 'analytics',
          jwks: await publicKeys(),
          expiresAt: IN_A_MONTH,
        },
      ],
      clientRules: [
        { key: 'evil', effect: 'block', host: 'evil.example' },
        { key: 'desk', effect: 'allow', name: 'Desk', destinations: ['desk.example'] },
      ],
    };
  });

  const write = (content: unknown) => {
    const path = join(host().directory, 'access.yaml');
    writeFileSync(path, typeof content === 'string' ? content : stringify(content));
    return path;
  };
  const applied = async (content: unknown, ...options: string[]): Promise<Applied> =>
    json('apply', '-f', write(content), ...options);
  const actions = ({ connectors, machines, clientRules }: Applied) =>
    [connectors, machines, clientRules].map((results) =>
      Object.fromEntries(
        results.map(({ key = '', action, changed }) => [
          key,
          changed ? `${action} ${changed.join()}` : action,
        ]),
      ),
    );

  it('makes what is in the file, and changes nothing the second time', async () => {
    expect(actions(await applied(file))).to.deep.equal([
      { ops: 'created', analysts: 'created' },
      { ci: 'created' },
      { evil: 'created', desk: 'created' },
    ]);
    expect(actions(await applied(file))).to.deep.equal([
      { ops: 'unchanged', analysts: 'unchanged' },
      { ci: 'unchanged' },
      { evil: 'unchanged', desk: 'unchanged' },
    ]);
  });

  it('exports a file that has the same records and changes nothing', async () => {
    await applied(file);
    const { code, stdout } = await run('export');
    expect(code).to.equal(0);
    const byKey = (records: Record<string, unknown>[] = []) =>
      records.toSorted((one, other) => (String(one['key']) < String(other['key']) ? -1 : 1));
    expect(parse(stdout)).to.deep.equal({
      connectors: byKey(file['connectors']),
      machines: byKey(file['machines']),
      clientRules: byKey(file['clientRules']),
    });
    const again = await run('apply', '-f', write(stdout), '--prune');
    expect(again).to.deep.equal({ code: 0, stderr: '', stdout: 'Nothing changed: 5 unchanged.\n' });
    expect((await run('export')).stdout).to.equal(stdout);
  });

  it('adopts what it names, without a change', async () => {
    const made = await json('connector', 'create', '--name', 'Ops', '--level', 'operations');
    await run('client', 'block', '--host', 'evil.example');
    const { stdout } = await run('export');
    expect(parse(stdout)['connectors']).to.deep.equal([
      { key: made.id, name: 'Ops', level: 'operations' },
    ]);
    const dryRun = ['--dry-run', '--exit-code'];
    expect((await run('apply', '-f', write(stdout), ...dryRun)).code).to.equal(0);
    expect(actions(await applied(stdout))[0]).to.deep.equal({ [made.id]: 'adopted' });
    expect(actions(await applied(stdout))[0]).to.deep.equal({ [made.id]: 'unchanged' });
    const { body } = await request(host(), 'GET', `/api/v1/connectors/${made.id}`);
    expect(body).to.deep.equal({ ...made, key: made.id });
  });
});
