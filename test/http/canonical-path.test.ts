import { expect } from 'chai';
import { createConnector } from '../support/management-api.ts';
import { rawRequest } from '../support/raw-request.ts';
import { useSystem } from '../support/system.ts';

const METADATA = '/.well-known/oauth-protected-resource';

/** Percent-encodes the character at `index`. */
function escaped(path: string, index: number): string {
  const code = path.charCodeAt(index).toString(16).padStart(2, '0');
  return `${path.slice(0, index)}%${code}${path.slice(index + 1)}`;
}

describe('paths with percent-encoding', () => {
  const system = useSystem();

  async function statusOf(base: string, path: string): Promise<number> {
    const { host } = new URL(base);
    return (await rawRequest(base, { path, headers: { host } })).status;
  }

  it('HDR-05 a connect link or its metadata with an encoded character is not found', async () => {
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

  it('HDR-05 a path with a valid or malformed escape is not found on any host', async () => {
    const { auth, resource, management } = system();
    for (const base of [auth, resource, management]) {
      for (const path of ['/%', '/%zz', '/%78', '/interaction/%', '/assets/%2e%2e/x', '/#', '/#x'])
        expect(await statusOf(base, path), base + path).to.equal(404);
    }
  });

  it('a query may contain escapes', async () => {
    const path = '/.well-known/oauth-authorization-server?x=%78%2f';
    expect(await statusOf(system().auth, path)).to.equal(200);
  });
});
