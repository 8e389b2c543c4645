import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect } from 'chai';
import { usePage } from '../support/chromium.ts';
import { requestAuthorization } from '../support/connection.ts';
import { createConnector } from '../support/management-api.ts';
import { countStoredKeys } from '../support/stored-keys.ts';
import { useSystem } from '../support/system.ts';
import { until } from '../support/until.ts';

const LOADS_OF_EACH_KIND = 5;

describe('Another site in Chromium', () => {
  const tab = usePage({ siteIsolation: true });
  const system = useSystem();
  let html = '';
  const site = createServer((_req, res) => {
    res.setHeader('content-type', 'text/html');
    res.end(html);
  });
  before(() => once(site.listen(0, '127.0.0.1'), 'listening'));
  after(() => {
    site.closeAllConnections();
    site.close();
  });

  it('CON-08 CON-11 DOS-03 prefetches, images and frames of another site show no page and start no authorization, and a click does', async () => {
    const { link } = await createConnector(system());
    const { url } = await requestAuthorization(system(), { link });
    const target = url.href.replaceAll('&', '&amp;');
    const { auth } = system();
    const loads = Array.from({ length: LOADS_OF_EACH_KIND }, (_, n) => `${target}&amp;n=${n}`);
    const framed = [...loads, `${auth}/`, `${auth}/oauth/authorize`];
    const loaded = 'document.title = "prefetched"';
    html = [
      `<link rel="prefetch" href="${target}" onload='${loaded}' onerror='${loaded}'>`,
      ...loads.map((src) => `<img src="${src}">`),
      ...framed.map((src) => `<iframe src="${src}"></iframe>`),
      `<a href="${target}">connect</a>`,
    ].join('');
    const { interaction: before } = await countStoredKeys(system());
    const page = tab();
    await page.goto(`http://127.0.0.1:${(site.address() as AddressInfo).port}`);
    await until('the page to be prefetched', async () => (await page.title()) === 'prefetched');
    const frames = page.frames().filter((frame) => frame !== page.mainFrame());
    expect(frames).to.have.length(framed.length);
    // A frame that is still loading has no address.
    await until('the frames to be loaded', () => frames.every((frame) => frame.url() !== ''));
    for (const frame of frames) expect(frame.url()).to.match(/^chrome-error:/);
    expect((await countStoredKeys(system())).interaction).to.equal(before);
    await page.getByText('connect').click();
    await page.getByRole('button', { name: 'Ada Lovelace' }).waitFor();
  });
});
