import { expect } from 'chai';
import { createConnector } from '../support/management-api.ts';
import { requestAuthorization } from '../support/connection.ts';
import { openBrowser, requirePage } from '../support/browser.ts';
import { countStoredKeys } from '../support/stored-keys.ts';
import { useSystem } from '../support/system.ts';
import { statuses, times } from '../support/repeated-requests.ts';

describe('The limits of authorizations and sign-ins', () => {
  const system = useSystem({
    file: {
      limits: {
        authorizations: { perAddress: '5/10m' },
        signIns: { perAddress: '4/10m' },
      },
    },
  });

  it('DOS-02 too many authorization requests get a 429 page and store nothing', async () => {
    const { link } = await createConnector(system());
    const { url } = await requestAuthorization(system(), { link });
    const visit = () => fetch(url, { redirect: 'manual', headers: { accept: 'text/html' } });
    expect(await statuses(times(5, visit))).to.deep.equal(Array(5).fill(303));
    const before = await countStoredKeys(system());
    const response = await visit();
    expect(response.status).to.equal(429);
    expect(Number(response.headers.get('retry-after'))).to.be.within(1, 600);
    expect(response.headers.get('content-type')).to.match(/^text\/html/);
    expect(await response.text()).to.match(/many requests/i);
    expect(await countStoredKeys(system())).to.deep.equal(before);
  });

  it('DOS-02 too many requests to interactions and callbacks get 429', async () => {
    const { auth } = system();
    const visit = (n: number) =>
      fetch(`${auth}/interaction/${n % 2 ? 'callback?state=x' : 'x'}`, { redirect: 'manual' });
    expect(await statuses(times(6, visit))).to.deep.equal([400, 400, 400, 400, 429, 429]);
  });
});

describe('The limit of sign-ins on the account page', () => {
  const system = useSystem({ file: { limits: { authorizations: { perAddress: '5/10m' } } } });

  it('DOS-02 sign-ins on the account page count as authorizations, and a signed-in person is not limited', async () => {
    const account = `${system().auth}/account`;
    const browser = openBrowser(system().origins);
    const people = requirePage(await browser.visit(account));
    expect((await browser.submit(people, { person: 'ada' })).kind).to.equal('page');
    const startSignIn = (n: number) =>
      fetch(account + (n % 2 ? '' : '/sign-in'), { redirect: 'manual' });
    expect(await statuses(times(6, startSignIn))).to.deep.equal([303, 303, 303, 303, 429, 429]);
    expect(requirePage(await browser.visit(account)).status).to.equal(200);
  });
});
