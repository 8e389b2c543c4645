// How the command line finds the management API and its key, and what it says when it does not.
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { basename, dirname, join } from 'node:path';
import { expect } from 'chai';
import { accessTo, gatehouse } from './command-line.ts';
import { KEY, type ManagementHost, openManagementHost } from './management-host.ts';

const LIST = ['connector', 'list', '--json'];

describe('the command line finds the management API', () => {
  let host: ManagementHost;
  before(async () => {
    host = await openManagementHost();
  });
  after(() => host.close());

  const file = (name: string) => join(host.directory, name);

  async function listed(env: Record<string, string>, cwd?: string): Promise<void> {
    expect(await gatehouse(LIST, env, cwd)).to.deep.equal({
      code: 0,
      stdout: `${JSON.stringify({ items: [] }, null, 2)}\n`,
      stderr: '',
    });
  }

  async function failed(env: Record<string, string>): Promise<Record<string, string>> {
    const { code, stdout, stderr } = await gatehouse(LIST, env);
    expect({ code, stdout }).to.deep.equal({ code: 1, stdout: '' });
    expect(stderr).not.to.include(KEY);
    return JSON.parse(stderr);
  }

  it('by the environment', () => listed(accessTo(host)));

  it('with the key in the data directory, which starts at the working directory', async () => {
    await writeFile(file('management.key'), `${KEY}\n`);
    const env = { GATEHOUSE_MANAGEMENT_URL: host.url };
    await listed({ ...env, GATEHOUSE_DATA_DIR: host.directory });
    await listed({ ...env, GATEHOUSE_DATA_DIR: basename(host.directory) }, dirname(host.directory));
  });

  it('by the settings file, also when the rest of that is wrong', async () => {
    await writeFile(file('management.key'), KEY);
    const settings = { managementUrl: host.url, dataDir: host.directory, authUrl: 7, nonsense: {} };
    await writeFile(file('settings.yaml'), JSON.stringify(settings));
    await listed({ GATEHOUSE_CONFIG: file('settings.yaml') });
  });

  it('with an empty variable counted as not set', async () => {
    await listed({ ...accessTo(host), GATEHOUSE_CONFIG: '', GATEHOUSE_DATA_DIR: '' });
  });

  it('and says where it looked for the key', async () => {
    const error = await failed({
      GATEHOUSE_MANAGEMENT_URL: host.url,
      GATEHOUSE_DATA_DIR: file('nothing'),
    });
    expect(error['error']).to.equal('invalid_settings');
    expect(error['error_description'])
      .to.include('GATEHOUSE_MANAGEMENT_KEY')
      .and.include(file('nothing/management.key'))
      .and.include('npm start');
  });

  it('and refuses a key that no header can carry', async () => {
    const error = await failed(accessTo(host, `${KEY}\n${KEY}`));
    expect(error['error_description']).to.include('GATEHOUSE_MANAGEMENT_KEY');
  });

  it('and names a settings file that cannot be read', async () => {
    const error = await failed({ GATEHOUSE_CONFIG: file('missing.yaml') });
    expect(error['error_description']).to.include('GATEHOUSE_CONFIG').and.include('missing.yaml');
  });

  it('and names an address that is none', async () => {
    const error = await failed({ ...accessTo(host), GATEHOUSE_MANAGEMENT_URL: 'localhost:4002' });
    expect(error['error_description']).to.include('GATEHOUSE_MANAGEMENT_URL');
  });

  it('and says when the key is another one', async () => {
    const error = await failed(accessTo(host, 'another-key-that-is-longer-than-32-characters'));
    expect(error['error']).to.equal('invalid_token');
    expect(error['error_description']).to.include(host.url).and.include('GATEHOUSE_MANAGEMENT_KEY');
  });

  it('and says when Gatehouse goes by another address', async () => {
    const error = await failed(accessTo({ url: host.url.replace('127.0.0.1', 'localhost') }));
    expect(error['error']).to.equal('misdirected_request');
    expect(error['error_description']).to.include('GATEHOUSE_MANAGEMENT_URL');
  });

  it('and says when nothing answers there', async () => {
    const url = await withServer(
      () => {},
      async (address) => address,
    );
    expect(await failed(accessTo({ url }))).to.deep.equal({
      error: 'unreachable',
      error_description: `nothing listens at ${url}: is Gatehouse running? Start it with npm start, or set GATEHOUSE_MANAGEMENT_URL`,
    });
  });

  it('and says when something else answers there', async () => {
    for (const body of ['<h1>It works</h1>', '"ok"', '', '{"status":"ok"}']) {
      const status = body.startsWith('{') ? 500 : 200;
      const answer: RequestListener = (_, response) => response.writeHead(status).end(body);
      await withServer(answer, async (url) => {
        const error = await failed(accessTo({ url }));
        expect(error['error'], body).to.equal('not_gatehouse');
      });
    }
  });

  it('and takes the key nowhere else, wherever it is sent', async () => {
    const seen: unknown[] = [];
    const collect: RequestListener = (request, response) => {
      seen.push(request.headers);
      response.end('{}');
    };
    await withServer(collect, (elsewhere) =>
      withServer(
        (_, response) => response.writeHead(307, { Location: elsewhere }).end(),
        async (url) => {
          expect((await failed(accessTo({ url })))['error']).to.equal('not_gatehouse');
        },
      ),
    );
    expect(seen).to.deep.equal([]);
  });

  it('and says when the connection breaks', async () => {
    await withServer(
      (request) => request.socket.destroy(),
      async (url) => {
        const error = await failed(accessTo({ url }));
        expect(error['error']).to.equal('unreachable');
        expect(error['error_description']).to.include(url);
      },
    );
  });

  async function withServer<T>(
    listener: RequestListener,
    use: (url: string) => Promise<T>,
  ): Promise<T> {
    const server = createServer(listener).listen(0, '127.0.0.1');
    await once(server, 'listening');
    try {
      return await use(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    } finally {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    }
  }
});
