import { expect } from 'chai';
import { requirePage } from '../support/browser.ts';
import {
  type Connected,
  later,
  openAddress,
  textOf,
  usePersonalUpstream,
} from '../support/credentials/system.ts';

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
    expect(saved.html).to.not.contain('be tried');
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
