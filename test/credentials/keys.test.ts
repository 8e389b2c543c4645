import { expect } from 'chai';
import { requirePage } from '../support/browser.ts';
import {
  type Connected,
  later,
  openAddress,
  textOf,
  usePersonalUpstream,
} from '../support/credentials/system.ts';
import { KEY_HEADER } from '../support/credentials/protected-server.ts';

const KEY = 'key-that-a-person-typed-0123456789';

describe('A key that a person enters', () => {
  const { service, connectAs } = usePersonalUpstream({ kind: 'key', label: 'Personal token' });
  let ada: Connected;
  before(async () => {
    ada = await connectAs('ada', later);
    service().acceptKey(KEY);
  });

  const enter = async (key: string) => {
    const page = await openAddress(await ada.call(), ada.browser);
    expect(page.html).to.contain('Personal token');
    service().calls.length = 0;
    return requirePage(await ada.browser.submit(page, { credential: 'now', key }));
  };
  const sent = () =>
    service()
      .calls.map(({ token }) => token)
      .filter((token) => token !== undefined);

  for (const [title, key] of Object.entries({
    'a line break': `${KEY}\r\nX-Admin: 1`,
    'a control character': `${KEY}\u0000`,
    'a letter that no header carries': `${KEY}é`,
    'a scheme and nothing else': 'Bearer ',
    nothing: ' ',
  }))
    it(`CRD-11 a key with ${title} is refused, and sent nowhere`, async () => {
      expect((await enter(key)).status).to.equal(400);
      expect(sent()).to.deep.equal([]);
    });

  it('CRD-11 a key that the server refuses is not stored', async () => {
    expect((await enter('another-key-0123456789')).status).to.equal(400);
    expect(sent()).to.deep.equal(['another-key-0123456789']);
    expect(textOf(await ada.call())).to.contain('/credentials/tools?for=');
  });

  it('a key is tried first, and sent without what was pasted around it', async () => {
    const saved = await enter(` Authorization: Bearer Bearer ${KEY} \n`);
    expect(saved.status).to.equal(200);
    expect(saved.html).to.not.contain('be tried').and.to.not.contain('Connect your');
    expect(saved.html).to.contain('account is connected');
    expect(sent()).to.deep.equal([KEY]);
    await ada.call();
    expect(sent()).to.deep.equal([KEY, KEY]);
  });

  it('the pages say that a key could not be tried where the server answers the same without it', async () => {
    service().answersAnybody = true;
    const page = requirePage(await ada.browser.visit(ada.browser.visited.at(-1) ?? ''));
    const saved = requirePage(await ada.browser.submit(page, { credential: 'now', key: KEY }));
    service().answersAnybody = false;
    expect(saved.html).to.contain('be tried');
    const account = requirePage(await ada.browser.visit(`${saved.url.origin}/account`));
    expect(account.html).to.contain('be tried').and.contain('Remove it there too');
  });
});

for (const [title, header, before] of [
  ['a header of its name', KEY_HEADER, ''],
  ['a header with a prefix', { name: KEY_HEADER, prefix: 'Key ' }, 'Key '],
] as const)
  describe(`A key that is sent in ${title}`, () => {
    const headers = {
      authorization: 'Bearer of-the-operator',
      [KEY_HEADER]: 'of-the-operator',
      'x-team': 'notes',
    };
    const credential = { kind: 'key', header };
    const { service, connectAs } = usePersonalUpstream(credential, { upstream: { headers } });

    it('replaces what the operator sends there and as authorization, and nothing else', async () => {
      const typed = service().acceptKey(`${KEY}-of-the-person`);
      const ada = await connectAs('ada', (asked, browser) =>
        browser.submit(asked, { credential: 'now', key: typed }),
      );
      await ada.call();
      const sent = service().calls.findLast(({ method }) => method === 'tools/call')?.headers;
      expect(sent?.[KEY_HEADER]).to.equal(before + typed);
      expect(sent?.['x-team']).to.equal('notes');
      expect(sent?.authorization).to.equal(undefined);
    });
  });
