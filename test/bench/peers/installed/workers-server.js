// workers-oauth-provider on workerd through miniflare. Arguments: the port and a folder for its key-value store.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Miniflare } from 'miniflare';

const [, , port, directory] = process.argv;
const PROVIDER = '@cloudflare/workers-oauth-provider';

const moduleFrom = async (path, file) => ({
  type: 'ESModule',
  path,
  contents: await readFile(file, 'utf8'),
});
const beside = (file) => join(import.meta.dirname, file);
const miniflare = new Miniflare({
  host: 'localhost',
  port: Number(port),
  compatibilityDate: '2026-07-01',
  modulesRoot: '/',
  modules: [
    await moduleFrom('/worker.js', beside('worker.js')),
    await moduleFrom('/answer.js', beside('answer.js')),
    await moduleFrom(`/${PROVIDER}`, beside(`node_modules/${PROVIDER}/dist/oauth-provider.js`)),
  ],
  kvNamespaces: ['OAUTH_KV'],
  kvPersist: directory,
  bindings: { ORIGIN: `http://localhost:${port}` },
});
await miniflare.ready;
process.once('SIGTERM', async () => {
  await miniflare.dispose();
  process.exit();
});
