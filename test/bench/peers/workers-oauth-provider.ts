// Cloudflare's workers-oauth-provider in the comparison, on workerd through miniflare, with miniflare's key-value store.
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { freePorts } from '../../support/free-ports.ts';
import type { ServerProcess } from '../server-process.ts';
import { METADATA_PATH } from '../subjects.ts';
import { type Implementation, newFolder, startPeer } from './implementation.ts';
import { agreeInForms } from './forms.ts';

export const workersOauthProvider: Implementation = {
  id: 'workers-oauth-provider',
  name: 'workers-oauth-provider, miniflare KV',
  isInstalled: true,
  async start(place) {
    const [port = 0] = await freePorts(1);
    const directory = await newFolder(place, 'workers');
    const args = [join(directory, 'kv')];
    const peer = { script: 'workers-server.js', port, args, directory };
    const { origin, ...started } = await startPeer({ ...peer, metadataPath: METADATA_PATH });
    return {
      ...started,
      origins: [origin],
      scope: 'operations offline_access',
      links: [`${origin}/one/mcp`, `${origin}/two/mcp`],
      open: `${origin}/open`,
      agree: agreeInForms,
      stop: await stopWithChildren(started.server),
    };
  },
};

/** Stops miniflare, which would leave workerd running if it were killed. */
async function stopWithChildren({ pid, stop }: ServerProcess): Promise<() => Promise<void>> {
  const { stdout } = await promisify(execFile)('ps', ['-o', 'pid=', '--ppid', String(pid)]);
  const children = stdout.trim().split(/\s+/).map(Number);
  const killAtExit = () => children.forEach((child) => process.kill(child, 'SIGKILL'));
  process.once('exit', killAtExit);
  return async () => {
    process.off('exit', killAtExit);
    await stop();
  };
}
