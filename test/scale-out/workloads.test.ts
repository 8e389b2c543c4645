import { expect } from 'chai';
import { createConnector, requestManagement, revokeConnector } from '../support/management-api.ts';
import { type IdJagIssuer, startIdJagIssuer } from '../support/id-jag-issuer.ts';
import { answerAt, statusesAt } from '../support/scale-out/direct-call.ts';
import { useProcesses } from '../support/scale-out/processes.ts';
import { changeSettings } from '../support/settings-file.ts';
import { until } from '../support/until.ts';
import { exchangeJwt } from '../support/workload-platform.ts';

const PROCESSES = 3;
const SUBJECT = 'system:serviceaccount:billing:reporter';
/** A rule is read again within this time, also without a notice. */
const BOUND_MS = 10_000;

describe(`Workloads at ${PROCESSES} processes on one Redis`, () => {
  let issuer: IdJagIssuer;
  const processes = useProcesses(async () => {
    issuer = await startIdJagIssuer();
    const rule = (id: string, connector: string) => {
      return { id, match: { subject: SUBJECT }, connector, level: 'analytics' };
    };
    const workloads = [
      rule('paused', 'Paused'),
      rule('revoked', 'Revoked'),
      rule('held', 'Held'),
      rule('gone', 'Gone'),
    ];
    const trusted = { id: 'cluster', issuer: issuer.issuer, jwksUri: issuer.jwksUri, workloads };
    const file = { authorization: { trustedIssuers: [trusted] } };
    return { store: 'redis', count: PROCESSES, file, inThisProcess: true };
  });
  after(() => issuer.stop());

  /** A workload whose token every process accepts. */
  async function connectWorkload(name: string) {
    const { id, link } = await createConnector(processes(), { name, level: 'analytics' });
    const iat = Math.floor(Date.now() / 1000);
    const claims = { iss: issuer.issuer, sub: SUBJECT, aud: processes().auth, iat, exp: iat + 300 };
    const assertion = await issuer.sign(claims, { typ: 'JWT' });
    const { body } = await exchangeJwt(processes().auth, { assertion, resource: link });
    const token = String(body['access_token']);
    const statuses = async () => new Set(await statusesAt(processes().running(), link, token));
    expect(await statuses()).to.deep.equal(new Set([200]));
    const answers = () =>
      Promise.all(
        processes()
          .running()
          .map((each) => answerAt(each, link, token)),
      );
    return { id, statuses, answers };
  }

  async function expectRefused(
    { statuses }: Awaited<ReturnType<typeof connectWorkload>>,
    status: number,
    from: number,
  ): Promise<void> {
    await until('every process to refuse the token', async () =>
      (await statuses()).isSubsetOf(new Set([status])),
    );
    expect(performance.now() - from).to.be.below(BOUND_MS);
  }

  it('WIF-07 every process refuses a token within ten seconds after its rule was paused, and its connector revoked', async () => {
    const paused = await connectWorkload('Paused');
    const revoked = await connectWorkload('Revoked');
    const from = performance.now();
    await requestManagement(processes(), 'POST', '/workloads/pause', { id: 'cluster:paused' });
    await revokeConnector(processes(), revoked.id);
    await expectRefused(paused, 401, from);
    await expectRefused(revoked, 410, from);
  });

  it('WIF-07 every process refuses calls within ten seconds after the connector of a rule was paused, and its issuer left the settings', async () => {
    const held = await connectWorkload('Held');
    const gone = await connectWorkload('Gone');
    const from = performance.now();
    await requestManagement(processes(), 'PATCH', `/connectors/${held.id}`, { paused: true });
    await until('every process to refuse the calls', async () =>
      (await held.answers()).every(({ body }) => /"isError":\s*true/.test(body)),
    );
    expect(performance.now() - from).to.be.below(BOUND_MS);
    const later = performance.now();
    const restore = changeSettings(processes(), { authorization: { trustedIssuers: [] } });
    try {
      await requestManagement(processes(), 'POST', '/settings/reload', {});
      await expectRefused(gone, 401, later);
    } finally {
      restore();
    }
  });
});
