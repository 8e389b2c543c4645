import { generateKeyPairSync } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { findGrant } from '../../src/connections/grants.ts';
import { findMachine, replaceCredentials } from '../../src/clients/machines.ts';
import { DOCUMENT } from '../interoperability/table.ts';
import { useCommandLine } from './command-line.ts';

describe('the commands for machines', () => {
  const { host, run, done, json } = useCommandLine();
  let directory: string;
  before(async () => {
    directory = await mkdtemp(join(tmpdir(), 'machine-'));
  });
  after(() => rm(directory, { recursive: true }));

  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });

  async function newConnector(): Promise<string> {
    return (await json('connector', 'create', '--name', 'Numbers', '--level', 'admin')).id;
  }
  const create = (connector: string, ...more: string[]) => [
    'client',
    'create',
    '--name',
    'CI',
    '--connector',
    connector,
    '--level',
    'operations',
    ...more,
  ];

  async function keyFile(content: string): Promise<string> {
    const file = join(directory, 'key');
    await writeFile(file, content);
    return file;
  }

  it('client create prints the id, the secret once, and how to connect and end it', async () => {
    const connector = await newConnector();
    const stdout = await done(...create(connector));
    expect(stdout).to.match(/^Created the machine CI\. Its secret is shown only once\./);
    const [, id = ''] = /client id +(\S+)/.exec(stdout) ?? [];
    const [, secret = ''] = /secret +(\S{43})\n/.exec(stdout) ?? [];
    expect(stdout).to.include(`gatehouse client revoke ${id}`);
    const { link } = await json('connector', 'show', connector);
    const documented = (await readFile(DOCUMENT, 'utf8')).match(
      /^npx .* --client-credentials .*$/m,
    );
    const command = String(documented)
      .replace(/https:\S+/, link)
      .replace('<client id>', id);
    expect(stdout).to.include(command);
    expect(stdout.split(secret)).to.have.length(2);
    expect(await findMachine(host().store, id)).to.include({ connector, level: 'operations' });
    expect(await done('client', 'show', id)).to.match(/kind +machine/);
  });

  it('client create prints the limit on calls', async () => {
    const { stdout } = await run(...create(await newConnector(), '--calls', '5/1m'));
    expect(stdout).to.match(/limit on calls +5\/1m$/m);
  });

  it('of two replacements of the same key, one counts', async () => {
    const { id } = await json(...create(await newConnector()));
    const { store, now } = host();
    const from = await findMachine(store, id);
    if (!from) throw new Error('there is no machine');
    const replace = (to: string) =>
      replaceCredentials(store, id, { from, to, credentials: { secretDigest: to } }, now());
    expect(await Promise.all([replace('one'), replace('two')])).to.have.members([true, false]);
  });

  it('client update changes the name and the expiry, which client show prints', async () => {
    const connector = await newConnector();
    const { id } = await json(...create(connector));
    expect(await done('client', 'update', id, '--name', 'Nightly', '--expires', '30d')).to.match(
      new RegExp(`^Changed the machine Nightly \\(${id}\\)\\. It expires `),
    );
    const expiresAt = new Date((host().now() + 30 * 86_400) * 1000).toISOString();
    expect(await json('client', 'show', id)).to.deep.include({
      name: 'Nightly',
      machine: { connector, level: 'operations', expiresAt },
    });
    expect(await done('client', 'show', 'Nightly')).to.match(/\n +expires +\d{4}-/);
    const app = await run('client', 'update', 'https://app.example.com/id.json', '--name', 'Mine');
    expect([app.code, app.stdout]).to.deep.equal([1, '']);
  });

  it('client create defaults to 90 days, and refuses a higher level and a later expiry', async () => {
    const connector = await newConnector();
    const { expiresAt } = await json(...create(connector));
    expect(Date.parse(expiresAt) / 1000).to.equal(Math.floor(host().now()) + 90 * 86_400);
    for (const [wrong, text] of [
      [['--level', 'full'], 'level: at most admin'],
      [['--expires', '367d'], 'expiresIn: at most 366d'],
      [['--jwks-uri', 'http://ci.example.com/keys'], 'jwksUri: '],
    ] as const) {
      const { code, stdout, stderr } = await run(...create(connector, ...wrong));
      expect([code, stdout], stderr).to.deep.equal([1, '']);
      expect(stderr).to.include(text);
    }
  });

  it('client create takes a public key as PEM, JWK or JWK set, and never a private one', async () => {
    const connector = await newConnector();
    const jwk = publicKey.export({ format: 'jwk' });
    for (const content of [
      String(publicKey.export({ type: 'spki', format: 'pem' })),
      JSON.stringify(jwk),
      JSON.stringify({ keys: [jwk] }),
    ]) {
      const machine = await json(...create(connector, '--public-key', await keyFile(content)));
      expect(machine).to.include({ authentication: 'private_key_jwt' });
      expect(machine).not.to.have.property('secret');
    }
    for (const [content, text] of [
      [String(privateKey.export({ type: 'pkcs8', format: 'pem' })), 'contains a private key'],
      [JSON.stringify(privateKey.export({ format: 'jwk' })), 'contains a private key'],
      ['nothing', 'is not a public key'],
    ] as const) {
      const { code, stderr } = await run(
        ...create(connector, '--public-key', await keyFile(content)),
      );
      expect(code).to.equal(1);
      expect(stderr).to.include(text);
    }
    const missing = await run(...create(connector, '--public-key', join(directory, 'missing')));
    expect(missing.stderr).to.include('cannot be read (ENOENT)');
  });

  it('client key replaces the secret and ends the tokens; client revoke ends the machine for good', async () => {
    const connector = await newConnector();
    const { id, secret } = await json(...create(connector));
    const before = await findMachine(host().store, id);
    const renewed = await json('client', 'key', id);
    expect(renewed.secret).to.be.a('string').and.not.equal(secret);
    expect(await findGrant(host().store, String(before?.grantId))).to.equal(undefined);
    expect(await done('client', 'revoke', id)).to.include('create a new machine');
    for (const command of ['allow', 'key']) {
      const { code, stderr } = await run('client', command, id);
      expect(code).to.equal(1);
      expect(stderr).to.include('create a new one');
    }
  });
});
