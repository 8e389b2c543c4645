// Whether the receivers of the audit log accept items.
import { Webhook } from 'standardwebhooks';
import { type Verdict, verdictOnAnswer, verdictOnError } from '../audit/delivery/answer.ts';
import { type DeliveredItem, openRenderer } from '../audit/delivery/render.ts';
import { sendToReceiver } from '../audit/delivery/send.ts';
import type { AuditDelivery } from '../management/resources/audit-delivery.ts';
import type { DeliveryTarget } from '../settings/audit-delivery.ts';
import { version } from '../version.ts';
import type { ConfiguredDeployment } from './deployment.ts';
import { counted, findingAbout, type Findings, okIfNone } from './report.ts';

/** The event of the item that doctor sends. It is not stored. */
const TEST_EVENT = 'delivery_test';
const TIMEOUT_MS = 15_000;
const LATE_SECONDS = 900;

/** Sends one test item to each target, and reads how far the running system is. */
export async function checkAuditDelivery(deployment: ConfiguredDeployment): Promise<Findings> {
  const { settings, listRecords } = deployment;
  const { delivery } = settings.audit;
  if (delivery.length === 0) return undefined;
  const records = await listRecords();
  return Promise.all(
    delivery.map(async (target) => [
      await checkTarget(deployment, target),
      stateFindings(
        target,
        records?.deliveries.find(({ id }) => id === target.id),
        deployment.now() / 1000,
      ),
    ]),
  );
}

async function checkTarget(
  { settings: { forwardProxy }, signal, now }: ConfiguredDeployment,
  target: DeliveryTarget,
): Promise<Findings> {
  const finding = findingAbout('audit-delivery', target.id);
  const time = now() / 1000;
  const renderer = await openRenderer(target, version);
  const { body } = renderer.render([testItem(time)], { at: time, notBefore: 0 });
  const headers = renderer.headers(`msg_doctor${Math.floor(time)}`, body, time);
  if (
    target.kind === 'webhook' &&
    !target.secrets.every((secret) => isSigned(secret, body, headers))
  )
    return finding.problem({
      what: 'a receiver would not accept the signature of webhooks',
      why: 'receivers that verify signatures refuse everything',
      remedy: 'check secretEnv and secretFile of the target, and the clock of this machine',
    });
  const verdict = await send(target, { body, headers }).catch((error: unknown) =>
    verdictOnError(target, error),
  );
  if (verdict.kind === 'accept')
    return finding.ok(
      target.kind === 'webhook'
        ? 'the receiver accepts a test item, and its signature is valid'
        : 'the receiver accepts a test item',
    );
  return finding.problem({
    what: `the receiver does not accept a test item: ${verdict.reason}`,
    why: 'audit items wait, and are lost above audit.keepUndelivered',
    remedy: REMEDIES[verdict.kind],
  });

  async function send(to: DeliveryTarget, request: Parameters<typeof sendToReceiver>[1]) {
    const answer = await sendToReceiver(to, request, {
      forwardProxy,
      signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]),
    });
    return verdictOnAnswer(to, answer, time);
  }
}

const REMEDIES: Record<Exclude<Verdict['kind'], 'accept'>, string> = {
  hold: 'check url, headers and secrets of the target in audit.delivery, and what the receiver expects',
  halve: 'check that the receiver expects this kind and format',
  retry: 'check that the receiver runs, and that this machine may connect to it',
};

function testItem(time: number): DeliveredItem {
  return {
    id: `doctor-${Math.floor(time)}`,
    epoch: '',
    number: 0,
    time: new Date(time * 1000).toISOString(),
    event: TEST_EVENT,
    outcome: 'done',
  };
}

/** Verifies as receivers do, with the library of Standard Webhooks. */
function isSigned(
  secret: string,
  body: Uint8Array<ArrayBuffer>,
  headers: Record<string, string>,
): boolean {
  try {
    new Webhook(secret).verify(Buffer.from(body), headers);
    return true;
  } catch {
    return false;
  }
}

function stateFindings(
  { id }: DeliveryTarget,
  delivery: AuditDelivery | undefined,
  now: number,
): Findings {
  if (!delivery) return undefined;
  const { state, reason = '', backlog, oldestAt, lost, rejected } = delivery;
  const finding = findingAbout('audit-delivery', id);
  const age = oldestAt === undefined ? 0 : now - Date.parse(oldestAt) / 1000;
  return okIfNone(
    [
      state === 'refused' &&
        finding.problem({
          what: `the receiver refuses everything: ${reason}`,
          why: `${counted(backlog, 'audit item')} wait, and are lost above audit.keepUndelivered`,
          remedy: 'correct the receiver or audit.delivery, then run gatehouse reload',
        }),
      state !== 'refused' &&
        age > LATE_SECONDS &&
        finding.warning({
          what: `${counted(backlog, 'audit item')} wait, the oldest since ${oldestAt}`,
          why: 'the receiver does not know what happened since then',
          remedy: `check the receiver, and the network to it${reason === '' ? '' : ` (${reason})`}`,
        }),
      state !== 'refused' &&
        backlog > 0 &&
        oldestAt === undefined &&
        finding.warning({
          what: `${counted(backlog, 'audit item')} wait, and cannot be decrypted`,
          why: 'the receiver will not get them',
          remedy: 'check that every process has the root secret of these items',
        }),
      lost > 0 &&
        finding.warning({
          what: `${counted(lost, 'audit item')} were trimmed before the receiver had them`,
          why: 'the receiver will never get them',
          remedy: 'see the items delivery_lost in the audit log; raise audit.keepUndelivered',
        }),
      rejected > 0 &&
        finding.note({
          what: `the receiver refused ${counted(rejected, 'audit item')}`,
          why: 'it does not have them',
          remedy: 'see the items delivery_rejected in the audit log',
        }),
    ],
    finding.ok('no audit item waits for long'),
  );
}
