// Tests of use limits, for processes whose number may change.
import { expect } from 'chai';
import { createConnector, showConnector } from '../support/management-api.ts';
import { isConsentPage, describePage, openBrowser, type Person } from '../support/browser.ts';
import { connect, redeem, registerClient, type IssuedCode } from '../support/connection.ts';
import { isAccepted } from '../support/mcp.ts';
import { authorizeUrl, discover, refresh } from '../support/oauth.ts';
import type { Processes } from '../support/scale-out/processes.ts';

const LIMIT = 10;
const AUTHORIZATIONS = 200;
const WORKERS: Person[] = ['ada', 'grace', 'ada', 'grace'];

export function testUseLimits(processes: () => Processes): void {
  it(`CNX-04 ${AUTHORIZATIONS} concurrent approvals make exactly the ${LIMIT} grants of the limit`, async () => {
    const connector = await createConnector(processes(), { maxUses: LIMIT });
    const approvals = await prepareApprovals(processes(), connector, AUTHORIZATIONS);
    expect(approvals).to.have.length(AUTHORIZATIONS);
    const codes = await Promise.all(approvals.map((approve) => approve()));
    const answers = await Promise.all(
      codes.filter((code) => code !== undefined).map((code) => redeem(code)),
    );
    const granted = answers.filter(({ status }) => status === 200);
    expect(granted).to.have.length(LIMIT);
    for (const { body } of granted)
      expect(await isAccepted(connector.link, body.access_token)).to.equal(true);
    const { uses, state } = await showConnector(processes(), connector.id);
    expect({ uses, state }).to.deep.equal({ uses: LIMIT, state: 'used-up' });
  }).timeout(120_000);

  it('CNX-05 neither refreshes, new clients, other people nor restarts of all processes release a use', async () => {
    const connector = await createConnector(processes(), { maxUses: 2 });
    const ada = await connect(processes(), connector);
    const first = await refresh(ada.server, ada.client, ada.refreshToken);
    expect(first.status).to.equal(200);
    for (const leaving of processes().running()) {
      await processes().add();
      await leaving.kill();
    }
    expect((await showConnector(processes(), connector.id)).uses).to.equal(1);
    await connect(processes(), connector, { person: 'grace' });
    expect(await countApproved(processes(), connector, 4)).to.equal(0);
    const { uses, state } = await showConnector(processes(), connector.id);
    expect({ uses, state }).to.deep.equal({ uses: 2, state: 'used-up' });
    const later = await refresh(ada.server, ada.client, first.body.refresh_token);
    expect(later.status).to.equal(200);
  }).timeout(120_000);
}

type Link = { link: string };

async function countApproved(system: Processes, connector: Link, count: number): Promise<number> {
  const approvals = await prepareApprovals(system, connector, count);
  const codes = await Promise.all(approvals.map((approve) => approve()));
  return codes.filter((code) => code !== undefined).length;
}

/** Opens `count` consent pages, each with its own browser and client. Approving resolves with a code, or undefined if no use is left. */
async function prepareApprovals(system: Processes, { link }: Link, count: number) {
  const { server } = await discover(link);
  const prepared: (() => Promise<IssuedCode | undefined>)[] = [];
  const prepare = async (person: Person) => {
    const client = await registerClient(server);
    const browser = openBrowser(system.origins);
    const { url, verifier } = authorizeUrl(server, client, { resource: link });
    const page = await browser.openConsent(url, person);
    if (!isConsentPage(page)) return;
    prepared.push(async () => {
      const step = await browser.submit(page, { decision: 'approve' });
      if (step.kind === 'redirect') return { link, server, client, callback: step.url, verifier };
      expect(step.html, describePage(step)).to.include('used up');
      return undefined;
    });
  };
  const work = async (person: Person) => {
    for (let n = 0; n < count / WORKERS.length; n += 1) await prepare(person);
  };
  await Promise.all(WORKERS.map(work));
  return prepared;
}
