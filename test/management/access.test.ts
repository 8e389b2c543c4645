import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { basename, dirname, join } from 'node:path';
import { expect } from 'chai';
import { accessTo, gatehouse, gatehouseProgram } from './command-line.ts';
import { KEY, type ManagementHost, openManagementHost } from './management-host.ts';

const LIST = ['connector', 'list', '--json'];

describe('access of the command line to the management API', () => {
  let host: ManagementHost;
  before(async () => {
    host = await openManagementHost();
  });
  after(() => host.close());

  const file = (name: string) => join(host.directory, name);

  const EMPTY = { code: 0, stdout: `${JSON.stringify({ items: [] }, null, 2)}\n`, stderr: '' };

  async function listed(env: Record<string, string>): Promise<void> {
    expect(await gatehouse(LIST, env)).to.deep.equal(EMPTY);
  }

  async function failed(env: Record<string, string>): Promise<Record<string, string>> {
    const { code, stdout, stderr } = await gatehouse(LIST, env);
    expect({ code, stdout }).to.deep.equal({ code: 1, stdout: '' });
    expect(stderr).not.to.include(KEY);
    return JSON.parse(stderr);
  }

  it('the command line takes the address and the key from the environment', async () => {
    await listed(accessTo(host));
  });

  it('the command line reads the key from the data directory, which can be relative to the working directory', async () => {
    await writeFile(file('management.key'), `${KEY}\n`);
    const env = { GATEHOUSE_MANAGEMENT_URL: host.url };
    await listed({ ...env, GATEHOUSE_DATA_DIR: host.directory });
    const relative = { ...env, GATEHOUSE_DATA_DIR: basename(host.directory) };
    const outcome = await gatehouseProgram(LIST, relative, dirname(host.directory));
    expect(outcome).to.deep.equal(EMPTY);
  });

  it('the command line takes the address from the settings file even if other settings are wrong', async () => {
    await writeFile(file('management.key'), KEY);
    const settings = { managementUrl: host.url, dataDir: host.directory, authUrl: 7, nonsense: {} };
    await writeFile(file('settings.yaml'), JSON.stringify(settings));
    await listed({ GATEHOUSE_CONFIG: file('settings.yaml') });
  });

  it('an empty variable counts as not set', async () => {
    await listed({ ...accessTo(host), GATEHOUSE_CONFIG: '', GATEHOUSE_DATA_DIR: '' });
  });

  it('the error names the places where the key was looked for', async () => {
    const error = await failed({
      GATEHOUSE_MANAGEMENT_URL: host.url,
      GATEHOUSE_DATA_DIR: file('nothing'),
    });
    expect(error['error']).to.equal('invalid_settings');
    expect(error['error_description'])
      .to.include('GATEHOUSE_MANAGEMENT_KEY')
      .and.include(file('nothing/management.key'))
      .and.include('npx gatehouse start');
  });

  it('a key that cannot be sent in a header is refused', async () => {
    const error = await failed(accessTo(host, `${KEY}\n${KEY}`));
    expect(error['error_description']).to.include('GATEHOUSE_MANAGEMENT_KEY');
  });

  it('the error names a settings file that cannot be read', async () => {
    const error = await failed({ GATEHOUSE_CONFIG: file('missing.yaml') });
    expect(error['error_description']).to.include('GATEHOUSE_CONFIG').and.include('missing.yaml');
  });

  it('the error names an invalid address', async () => {
    const error = await failed({ ...accessTo(host), GATEHOUSE_MANAGEMENT_URL: 'localhost:4002' });
    expect(error['error_description']).to.include('GATEHOUSE_MANAGEMENT_URL');
  });

  it('the error says that the key is wrong', async () => {
    const error = await failed(accessTo(host, 'another-key-that-is-longer-than-32-characters'));
    expect(error['error']).to.equal('invalid_token');
    expect(error['error_description']).to.include(host.url).and.include('GATEHOUSE_MANAGEMENT_KEY');
  });

  it('the error says that Gatehouse has another address', async () => {
    const error = await failed(accessTo({ url: host.url.replace('127.0.0.1', 'localhost') }));
    expect(error['error']).to.equal('misdirected_request');
    expect(error['error_description']).to.include('GATEHOUSE_MANAGEMENT_URL');
  });

  it('the error says that nothing listens at the address', async () => {
    const url = await withServer(
      () => {},
      async (address) => address,
    );
    expect(await failed(accessTo({ url }))).to.deep.equal({
      error: 'unreachable',
      error_description: `nothing listens at ${url}: is Gatehouse running? Start it with npx gatehouse start, or set GATEHOUSE_MANAGEMENT_URL`,
    });
  });

  it('the error says that the server is not Gatehouse', async () => {
    for (const body of ['<h1>It works</h1>', '"ok"', '', '{"status":"ok"}']) {
      const status = body.startsWith('{') ? 500 : 200;
      const answer: RequestListener = (_, response) => response.writeHead(status).end(body);
      await withServer(answer, async (url) => {
        const error = await failed(accessTo({ url }));
        expect(error['error'], body).to.equal('not_gatehouse');
      });
    }
  });

  it('the key is not sent to the target of a redirect', async () => {
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

  it('the error says that the connection broke', async () => {
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
