import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { until } from '../../support/until.ts';
import { freePorts } from '../../support/free-ports.ts';
import { startSystem, type System } from '../../support/system.ts';
import { connectV2 } from '../../support/upstream/sdk-clients.ts';
import { connectPerson } from '../../support/upstream/system.ts';

const ROOT = join(import.meta.dirname, '../../..');

function exampleIn(readme: string): string {
  const [, code] = /```js\n(import \{ createServer \}[\s\S]*?)```/.exec(readme) ?? [];
  if (!code) throw new Error('the README has no example server');
  return code;
}

describe('The example server of the upstream README', () => {
  let system: System;
  let server: ChildProcess;
  let url: string;
  before(async () => {
    const [port = 0] = await freePorts(1);
    url = `http://127.0.0.1:${port}/mcp`;
    const tools = [{ name: 'search_orders', level: 'operations' }];
    system = await startSystem({ file: { resourceServer: { upstream: { url, tools } } } });
    const code = exampleIn(readFileSync(join(ROOT, 'src/gateway/upstream/README.md'), 'utf8'))
      .replaceAll('https://auth.example.com', system.auth)
      .replaceAll('https://tools.example.com/mcp', url)
      .replace('listen(9000)', `listen(${port})`);
    server = spawn(process.execPath, ['--input-type=module'], {
      cwd: ROOT,
      stdio: ['pipe', 'inherit', 'inherit'],
    });
    server.stdin?.end(code);
    await until('the server to listen', () => fetch(url).then(Boolean, () => false));
  });
  after(async () => {
    await system?.stop();
    if (!server) return;
    server.kill();
    await once(server, 'exit');
  });

  it('the server answers calls through Gatehouse and knows the caller', async () => {
    const { link, token, connector } = await connectPerson(system, 'operations');
    const client = await connectV2('auto')(link, token);
    expect(await client.listTools()).to.deep.equal(['search_orders']);
    const result = JSON.stringify(await client.callTool('search_orders'));
    expect(result).to.include(connector.id).and.include('operations');
    await client.close();
  });

  it('the server answers no other caller', async () => {
    const { token } = await connectPerson(system, 'operations');
    const wrong: Record<string, string>[] = [
      {},
      { 'gatehouse-caller': token },
      { authorization: `Bearer ${token}` },
    ];
    for (const headers of wrong)
      expect((await fetch(url, { method: 'POST', headers, body: '{}' })).status).to.equal(401);
  });
});
