// An audit log in a store of its own that is delivered to receivers, at a time that the test controls.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type AuditItem, recordAudit } from '../../../src/audit/audit.ts';
import { readAuditAfter } from '../../../src/audit/audit-log.ts';
import { type DeliveryOptions, startAuditDelivery } from '../../../src/audit/delivery/delivery.ts';
import { type DeliveryStatus, deliveryStatus } from '../../../src/audit/delivery/status.ts';
import { createLogger } from '../../../src/observability/logger.ts';
import { createMetrics } from '../../../src/observability/metrics.ts';
import type { DeliveryTarget } from '../../../src/settings/audit-delivery.ts';
import { type OpenedStore, openStore } from '../../../src/store/open.ts';
import { until } from '../../support/until.ts';
import { PATIENT_TIMEOUTS } from '../../support/scale-out/patient-timeouts.ts';

export const SECRET = `whsec_${Buffer.alloc(32, 'a').toString('base64')}`;
export const SECOND_SECRET = `whsec_${Buffer.alloc(32, 'b').toString('base64')}`;

type Webhook = Extract<DeliveryTarget, { kind: 'webhook' }>;

export function webhook(url: string, other: Partial<Webhook> = {}): Webhook {
  return {
    id: 'siem',
    kind: 'webhook',
    url,
    privateNetwork: true,
    events: undefined,
    headers: {},
    format: 'standard',
    secrets: [SECRET],
    ...other,
  };
}

export function otlp(url: string, other: Partial<DeliveryTarget> = {}): DeliveryTarget {
  const common = { id: 'otel', url, privateNetwork: true, events: undefined, headers: {} };
  return { ...common, ...other, kind: 'otlp', maxAge: 12 * 3600 };
}

export type DeliveredLog = {
  store: OpenedStore;
  dataDir: string;
  log: Record<string, unknown>[];
  /** Seconds since the epoch. */
  now(): number;
  /** The seconds that the clock was advanced. */
  ahead(): number;
  advance(seconds: number): void;
  /** Everything in the log, oldest first. */
  items(): Promise<AuditItem[]>;
  append(count: number, item?: Partial<AuditItem>): Promise<void>;
  /** Starts delivering, as another process would. Stops with `close` at the latest. */
  deliver(
    targets: readonly DeliveryTarget[],
    options?: Partial<DeliveryOptions>,
  ): Promise<{ stop(): Promise<void> }>;
  stopAll(): Promise<void>;
  status(target: DeliveryTarget): Promise<DeliveryStatus>;
  statusWith(
    target: DeliveryTarget,
    check: (status: DeliveryStatus) => boolean,
  ): Promise<DeliveryStatus>;
  metrics(): Promise<string>;
  close(): Promise<void>;
};

/** `dataDir` is that of the log in another process, whose clock is `ahead`. */
export async function openDeliveredLog(other?: {
  dataDir: string;
  ahead: number;
}): Promise<DeliveredLog> {
  const dataDir = other?.dataDir ?? (await mkdtemp(join(tmpdir(), 'gatehouse-delivery-')));
  const log: Record<string, unknown>[] = [];
  let ahead = other?.ahead ?? 0;
  const now = () => Date.now() / 1000 + ahead;
  const address = { kind: 'sqlite', file: join(dataDir, 'gatehouse.sqlite') } as const;
  const secret = 'root-secret-of-the-delivery-tests-0123456789';
  const store = await openStore(address, { secret, dataDir, now, timeouts: PATIENT_TIMEOUTS });
  const metrics = createMetrics([]);
  const services = {
    store,
    metrics,
    auditLog: () => undefined,
    now,
    version: '1.2.3',
    logger: createLogger('info', { write: (line: string) => void log.push(JSON.parse(line)) }),
  };
  const running = new Set<{ stop(): Promise<void> }>();
  const status = (target: DeliveryTarget) => deliveryStatus(store, target);
  const stopAll = async () => {
    await Promise.all([...running].map((each) => each.stop()));
    running.clear();
  };
  return {
    store,
    dataDir,
    log,
    ahead: () => ahead,
    stopAll,
    now,
    advance: (seconds) => void (ahead += seconds),
    items: async () => (await readAuditAfter(store, 0, 10_000)).flatMap(({ item }) => item ?? []),
    async append(count, item = {}) {
      const one = { event: 'call', outcome: 'answered', tool: 'list_orders', ...item };
      await Promise.all(Array.from({ length: count }, () => recordAudit(services, one)));
    },
    async deliver(targets, options = {}) {
      const loop = startAuditDelivery(services, { targets, pollMs: 20, ...options });
      running.add(loop);
      return loop;
    },
    status,
    statusWith: (target, check) =>
      until('the state of the delivery', async () => {
        const found = await status(target);
        return check(found) ? found : undefined;
      }),
    metrics: async () => (await metrics.read()).text,
    async close() {
      await stopAll();
      await store.close();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}
