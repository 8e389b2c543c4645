import { expect } from 'chai';
import { gatehouse, useCommandLine } from './command-line.ts';

describe('the commands keys list and keys rotate', () => {
  const { run, done, json } = useCommandLine();
  const MOMENT = /\d{4}-\d\d-\d\d \d\d:\d\d UTC/;
  const inKeys = async (...args: string[]) => (await json('keys', ...args)).items;

  it('the list is a table with one line for each key', async () => {
    const [{ id }] = await inKeys('list');
    const [headings, key, ...others] = (await done('keys', 'list')).trimEnd().split('\n');
    expect(headings).to.match(/^ID +STATE +SIGNS FROM +PUBLISHED UNTIL$/);
    expect(key).to.match(new RegExp(`^${id}  signing  ${MOMENT.source} +-$`));
    expect(others).to.deep.equal([]);
  });

  it('a rotation shows the waiting key and until when the old key is published', async () => {
    const stdout = await done('keys', 'rotate');
    const [next, signing] = await inKeys('list');
    expect(stdout).to.match(/^Published a new key/);
    expect(stdout).to.match(new RegExp(`^${next.id} +next +${MOMENT.source} +-$`, 'm'));
    const times = `${MOMENT.source}  ${MOMENT.source}`;
    expect(stdout).to.match(new RegExp(`^${signing.id} +signing +${times}$`, 'm'));
  });

  it('a rotation in progress refuses another one and names the time the new key signs', async () => {
    const [{ signsFrom }] = await inKeys('rotate');
    const { code, stdout, stderr } = await run('keys', 'rotate');
    expect({ code, stdout }).to.deep.equal({ code: 1, stdout: '' });
    expect(stderr)
      .to.match(/^gatehouse: a new key is already published/)
      .and.include(signsFrom)
      .and.include('--at-once');
    const refused = await run('keys', 'rotate', '--json');
    expect(refused).to.include({ code: 1, stdout: '' });
    expect(JSON.parse(refused.stderr).error).to.equal('rotation_pending');
  });

  it('keys rotate --at-once leaves one new key and explains the effect', async () => {
    const before = await inKeys('rotate');
    const [key, ...others] = await inKeys('rotate', '--at-once');
    expect(others).to.deep.equal([]);
    expect(key).to.include({ state: 'signing' });
    expect(before.map(({ id }: { id: string }) => id)).to.not.include(key.id);
    expect(await done('keys', 'rotate', '--at-once'))
      .to.match(/^Replaced the key\. Earlier access tokens no longer work/)
      .and.include('Earlier minted tokens no longer work');
  });

  it('the help explains a rotation and --at-once', async () => {
    const { code, stdout } = await gatehouse(['keys', 'rotate', '--help'], {});
    expect(code).to.equal(0);
    expect(stdout).to.include('signs in 10 minutes').and.include('for a key that leaked');
    expect(stdout)
      .to.match(/minted tokens included/i)
      .and.match(/Minted\s+tokens stop working too/);
    expect(stdout).to.include('$ gatehouse keys rotate --at-once');
  });
});
