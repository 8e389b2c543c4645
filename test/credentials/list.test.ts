import { expect } from 'chai';
import { credentialId } from '../../src/credentials/credential.ts';
import { deleteCredential, saveCredential } from '../../src/credentials/credentials.ts';
import { useCommandLine } from '../management/command-line.ts';
import { request } from '../management/management-host.ts';

const NAMES = ['c', 'a', 'b'];
/** Not in the order of the ids. */
const owners = NAMES.map((letter) => ({ upstream: 'tools', account: letter.repeat(27) }));
const ids = owners.map(credentialId);

describe('The list of credentials', () => {
  const { host, json } = useCommandLine();
  beforeEach(async () => {
    for (const [index, owner] of owners.entries())
      await saveCredential(host().store, owner, () => ({
        ...owner,
        kind: 'key',
        token: 'a key',
        scopes: [],
        epoch: String(index),
        connectedAt: 1_700_000_000 + index,
      }));
  });

  it('goes on with the next page after the last credential of a page has ended', async () => {
    const page = async (after = '') => {
      const { body } = await request(host(), 'GET', `/api/v1/credentials?limit=2${after}`);
      return body as { items: { id: string }[]; next?: string };
    };
    const first = await page();
    const [owner] = owners.filter((each) => credentialId(each) === first.next);
    if (!owner) throw new Error('the cursor names no credential');
    await deleteCredential(host().store, owner);
    const second = await page(`&after=${first.next}`);
    const listed = [first, second].flatMap(({ items }) => items.map(({ id }) => id));
    expect(listed).to.have.members(ids);
  });

  it('the command shows the oldest first', async () => {
    const { items } = await json('credential', 'list');
    expect(items.map(({ id }: { id: string }) => id)).to.deep.equal(ids);
  });
});
