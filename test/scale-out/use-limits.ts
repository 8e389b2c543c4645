// Tests of use limits at several processes.
import { expect } from 'chai';
import { createConnector, showConnector } from '../support/management-api.ts';
import { isConsentPage, describePage, openBrowser, type Person } from '../support/browser.ts';
import { redeem, registerClient, type IssuedCode } from '../support/connection.ts';
import { isAccepted } from '../support/mcp.ts';
import { authorizeUrl, discover } from '../support/oauth.ts';
import type { Processes } from '../support/scale-out/processes.ts';
import { recordSoak, SOAK } from '../support/soak.ts';

const LIMIT = SOAK ? 10 : 3;
const APPROVALS = SOAK ? 200 : 8;
const PEOPLE: Person[] = ['ada', 'grace'];

export function testUseLimits(processes: () => Processes): void {
  it(`CNX-04 ${APPROVALS} concurrent approvals at several instances make exactly the ${LIMIT} grants of the limit`, async () => {
    const connector = await createConnector(processes(), { maxUses: LIMIT });
    const approvals = await prepareApprovals(processes(), connector, APPROVALS);
    expect(approvals).to.have.length(APPROVALS);
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
    const what = `${APPROVALS} concurrent approvals of a link for ${LIMIT} uses`;
    recordSoak({ what, held: `${granted.length} grants` });
  }).timeout(120_000);
}

type Link = { link: string };

export async function countApproved(
  system: Processes,
  connector: Link,
  count: number,
): Promise<number> {
  const approvals = await prepareApprovals(system, connector, count);
  const codes = await Promise.all(approvals.map((approve) => approve()));
  return codes.filter((code) => code !== undefined).length;
}

/** Opens `count` consent pages, each with its own browser and client. Approving resolves with a code, or undefined if no use is left. */
async function prepareApprovals(system: Processes, { link }: Link, count: number) {
  const { server } = await discover(link);
  const prepared: (() => Promise<IssuedCode | undefined>)[] = [];
  const prepare = async (person: Person) => {
    for (let n = 0; n < count / PEOPLE.length; n += 1) {
      const browser = openBrowser(system.origins);
      const client = await registerClient(server);
      const { url, verifier } = authorizeUrl(server, client, { resource: link });
      const page = await browser.openConsent(url, person);
      if (!isConsentPage(page)) return;
      prepared.push(async () => {
        const step = await browser.submit(page, { decision: 'approve' });
        if (step.kind === 'redirect') return { link, server, client, callback: step.url, verifier };
        expect(step.html, describePage(step)).to.include('used up');
        return undefined;
      });
    }
  };
  await Promise.all(PEOPLE.map(prepare));
  return prepared;
}
