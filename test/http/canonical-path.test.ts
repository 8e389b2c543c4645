// No path of ours needs escaping, so a path with an escape in it is another spelling of one, and there is nothing there.
import { expect } from 'chai';
import { createConnector } from '../support/management-api.ts';
import { rawRequest } from '../support/raw-request.ts';
import { useSystem } from '../support/system.ts';

const METADATA = '/.well-known/oauth-protected-resource';

/** With the character at `index` written as an escape. */
function escaped(path: string, index: number): string {
  const code = path.charCodeAt(index).toString(16).padStart(2, '0');
  return `${path.slice(0, index)}%${code}${path.slice(index + 1)}`;
}

describe('A path with an escape in it', () => {
  const system = useSystem();

  async function statusOf(base: string, path: string): Promise<number> {
    const { host } = new URL(base);
    return (await rawRequest(base, { path, headers: { host } })).status;
  }

  it('is not a connect link, nor the address of its metadata', async () => {
    const { link, id } = await createConnector(system());
    const { pathname } = new URL(link);
    const { resource } = system();
    expect(await statusOf(resource, METADATA + pathname)).to.equal(200);
    for (const path of [METADATA + pathname, pathname]) {
      const start = path.indexOf(id);
      for (const index of [start, start + 1, start + id.length - 1, path.length - 1])
        expect(await statusOf(resource, escaped(path, index)), path).to.equal(404);
    }
  });

  it('HDR-05 is nothing on any host, also when it is malformed', async () => {
    const { auth, resource, management } = system();
    for (const base of [auth, resource, management]) {
      for (const path of ['/%', '/%zz', '/%78', '/interaction/%', '/assets/%2e%2e/x', '/#', '/#x'])
        expect(await statusOf(base, path), base + path).to.equal(404);
    }
  });

  it('is one only before the question mark', async () => {
    const path = '/.well-known/oauth-authorization-server?x=%78%2f';
    expect(await statusOf(system().auth, path)).to.equal(200);
  });
});
