// Labels come from closed lists, so that no client can create new time series.
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import {
  type AccessRefusal,
  accessRefusals,
  type CallLimitKind,
  callLimitKinds,
  type FlowOutcome,
  flowOutcomes,
  type FlowStep,
  flowSteps,
  grantTypes,
  recheckOutcomes,
  refusalReasons,
  auditEvents,
  type EndKind,
  endKinds,
  type StoreVerb,
  storeVerbs,
  toolChangeSeverities,
  upstreamFaults,
  dropReasons,
} from './labels.ts';
import type { MetricReport } from './metric-reports.ts';

const REQUEST_SECONDS = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 10];
const STORE_SECONDS = [0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1, 1.5];
const NOTICE_SECONDS = [0.01, 0.05, 0.25, 1, 2.5, 5, 10];

/** Alerts count these. Prometheus sees no increase in a series that starts above zero, so they are initialized to zero. */
const REPLAYS = ['code_replay', 'refresh_replay'] as const;

/** Durations are in seconds. A label value outside its closed list is counted as `other`. */
export type Metrics = {
  /** `seconds` is undefined for an event stream, which has no natural duration. */
  request(host: string, status: number, seconds: number | undefined): void;
  refusal(host: string, reason: string): void;
  /** `count` is called when the metrics are read, until the returned function is called. Several counts of a host are added. */
  watchStreams(host: string, count: () => number): () => void;
  rateLimited(limit: string, times?: number): void;
  /** The first refusal in a window. */
  callLimitReached(limit: CallLimitKind): void;
  /** Shows the failures of an upstream, given by its id in the settings, from the start: as 0. */
  watchUpstream(upstream: string): void;
  upstreamError(upstream: string, reason: (typeof upstreamFaults)[number]): void;
  /** Tools of an upstream that wait for an operator. */
  toolsHeld(upstream: string, count: number): void;
  /** Arguments that do not fit the input schema of their tool, refused or not. */
  argumentViolation(upstream: string): void;
  toolChange(upstream: string, severity: (typeof toolChangeSeverities)[number]): void;
  flow(step: FlowStep, outcome: FlowOutcome): void;
  token(grantType: string): void;
  /** `count` items, one by default. */
  auditEvent(name: string, reason?: string, count?: number): void;
  /** A person got no access. */
  accessRefused(reason: AccessRefusal): void;
  /** No request with the token of a new connection has arrived. */
  unusedConnection(): void;
  /** Items that are not in the audit log. */
  auditDropped(reason: (typeof dropReasons)[number], count: number): void;
  /** Whether the last day of the audit log is as it was written. */
  auditVerified(isOk: boolean): void;
  /** How many seconds back the audit log has all calls. */
  auditReach(seconds: number): void;
  recheck(outcome: (typeof recheckOutcomes)[number]): void;
  /** What the process knows of its settings: their digest, and its last reload (seconds since the epoch). */
  settings(state: {
    digest?: string;
    reload?: { at: number; done: boolean };
    /** Versions of the settings with open requests, with those in force. */
    generations?: number;
  }): void;
  noticeDelay(channel: string, seconds: number): void;
  storeLatency(verb: StoreVerb, seconds: number): void;
  storeError(verb: StoreVerb): void;
  deliveryFailure(target: string): void;
  deliveryRejected(target: string, count: number): void;
  deliveryLost(target: string, count: number): void;
  /** `read` is called when the metrics are read. Replaces the targets of an earlier call. */
  watchDelivery(targets: readonly string[], read: () => Promise<readonly DeliveryBacklog[]>): void;
  /** `count` is called when the metrics are read, and says what ends within 14 days. Replaces an earlier one. */
  watchEnding(count: () => Promise<Partial<Record<EndKind, number>>>): void;
  watchTools(count: () => Promise<readonly ToolCounts[]>): void;
  /** Returns all metrics, including those of the process, in the Prometheus text format. With workers, those of all of them. */
  read(): Promise<{ type: string; text: string }>;
};

/** Resolves with the metrics of all workers, in the Prometheus text format. `report` returns those of this one. */
export type GatherMetrics = (report: () => Promise<MetricReport>) => () => Promise<string>;

/** Of an upstream: connectors that open none of its tools, and held tools that were called in the last week. */
export type ToolCounts = { upstream: string; emptyConnectors: number; missedTools: number };

/** `oldest`: the age of the oldest item that is not delivered, in seconds. `refused`: why the receiver refuses everything. */
export type DeliveryBacklog = {
  id: string;
  backlog: number;
  oldest: number;
  refused?: string;
};

/** `reasons` are the codes with which a grant can end. */
export function createMetrics(reasons: readonly string[], gather?: GatherMetrics): Metrics {
  const registry = new Registry();
  const { collectDelivery, ...delivery } = deliveryMetrics(registry);
  const { collectEnding, watchEnding } = endingMetrics(registry);
  const { collectTools, watchTools } = toolMetrics(registry);
  const collect = () => Promise.all([collectDelivery(), collectEnding(), collectTools()]);
  const registries = () => [registry, processMetrics()];
  const gathered = gather?.(async () => {
    await collect();
    const parts = await Promise.all(registries().map((part) => part.getMetricsAsJSON()));
    return parts.flat();
  });
  const own = async () => {
    await collect();
    const parts = await Promise.all(registries().map((part) => part.metrics()));
    return parts.join('\n');
  };
  return {
    ...hostMetrics(registry),
    ...flowMetrics(registry, reasons),
    ...storeMetrics(registry),
    ...settingsMetrics(registry),
    ...delivery,
    watchEnding,
    watchTools,
    read: async () => ({ type: registry.contentType, text: await (gathered ?? own)() }),
  };
}

function closed(list: readonly string[]): (value: string | undefined) => string {
  const known = new Set(list);
  return (value) => (value !== undefined && known.has(value) ? value : 'other');
}

type HostMetrics = Pick<
  Metrics,
  | 'request'
  | 'refusal'
  | 'watchStreams'
  | 'rateLimited'
  | 'callLimitReached'
  | 'watchUpstream'
  | 'upstreamError'
  | 'toolsHeld'
  | 'toolChange'
  | 'argumentViolation'
>;

let processRegistry: Registry | undefined;

/** Shared by all instances in one process, because they measure the same event loop. */
function processMetrics(): Registry {
  if (processRegistry) return processRegistry;
  processRegistry = new Registry();
  collectDefaultMetrics({ register: processRegistry });
  return processRegistry;
}

const MAX_WAITING = 200;

/** Counts many requests together, because counting each by itself takes several times as long. */
function answeredRequests(registry: Registry): Metrics['request'] {
  type Waiting = { statuses: Map<number, number>; seconds: number[] };
  const waiting = new Map<string, Waiting>();
  const countHost = (host: string, { statuses, seconds }: Waiting) => {
    for (const [kind, times] of statuses) requests.inc({ host, status: `${kind}xx` }, times);
    for (const took of seconds) durations.observe({ host }, took);
    statuses.clear();
    seconds.length = 0;
  };
  const collect = () => {
    for (const [host, each] of waiting) countHost(host, each);
  };
  const requests = new Counter({
    name: 'gatehouse_requests_total',
    help: 'Requests answered.',
    labelNames: ['host', 'status'],
    registers: [registry],
    collect,
  });
  const durations = new Histogram({
    name: 'gatehouse_request_seconds',
    help: 'Duration of requests, without event streams.',
    labelNames: ['host'],
    buckets: REQUEST_SECONDS,
    registers: [registry],
    collect,
  });
  return (host, status, took) => {
    const found: Waiting = waiting.get(host) ?? { statuses: new Map(), seconds: [] };
    waiting.set(host, found);
    const kind = Math.floor(status / 100);
    found.statuses.set(kind, (found.statuses.get(kind) ?? 0) + 1);
    if (took !== undefined) found.seconds.push(took);
    if (found.seconds.length >= MAX_WAITING) countHost(host, found);
  };
}

function hostMetrics(registry: Registry): HostMetrics {
  const count = counters(registry);
  const answered = answeredRequests(registry);
  const refusals = count('refusals_total', 'Requests refused, by error code.', ['host', 'reason']);
  const limited = count('rate_limited_total', 'Requests over a rate limit.', ['limit']);
  const callLimits = count(
    'call_limits_reached_total',
    'Windows of limits on calls in which a call was refused.',
    ['limit'],
  );
  for (const limit of callLimitKinds) callLimits.inc({ limit }, 0);
  const upstream = count('upstream_errors_total', 'Upstream calls that failed.', [
    'upstream',
    'reason',
  ]);
  const changes = count('upstream_tool_changes_total', 'Changes of tools that were found.', [
    'upstream',
    'severity',
  ]);
  const violations = count(
    'upstream_argument_violations_total',
    'Calls whose arguments do not fit the input schema of their tool.',
    ['upstream'],
  );
  const held = new Gauge({
    name: 'gatehouse_upstream_tools_held',
    help: 'Tools that are hidden and refused until an operator approves them. All processes count the same tools.',
    aggregator: 'max',
    labelNames: ['upstream'],
    registers: [registry],
  });
  const watched = new Set<{ host: string; count: () => number }>();
  const streams = new Gauge({
    name: 'gatehouse_open_streams',
    help: 'Open event streams.',
    labelNames: ['host'],
    registers: [registry],
    collect() {
      for (const { host } of watched) streams.set({ host }, 0);
      for (const { host, count: open } of watched) streams.inc({ host }, open());
    },
  });
  const reasonOf = closed(refusalReasons);
  return {
    request: answered,
    refusal: (host, reason) => refusals.inc({ host, reason: reasonOf(reason) }),
    watchStreams(host, open) {
      const entry = { host, count: open };
      watched.add(entry);
      return () => void watched.delete(entry);
    },
    rateLimited: (limit, times = 1) => limited.inc({ limit }, times),
    callLimitReached: (limit) => callLimits.inc({ limit }),
    watchUpstream(id) {
      for (const reason of upstreamFaults) upstream.inc({ upstream: id, reason }, 0);
      for (const severity of toolChangeSeverities) changes.inc({ upstream: id, severity }, 0);
    },
    upstreamError: (id, reason) => upstream.inc({ upstream: id, reason }),
    toolsHeld: (id, number) => held.set({ upstream: id }, number),
    argumentViolation: (id) => violations.inc({ upstream: id }),
    toolChange: (id, severity) => changes.inc({ upstream: id, severity }),
  };
}

function settingsMetrics(registry: Registry): Pick<Metrics, 'settings'> {
  const gauge = (name: string, help: string, labelNames: readonly string[] = []) =>
    new Gauge({
      name: `gatehouse_settings_${name}`,
      help,
      aggregator: 'max',
      labelNames,
      registers: [registry],
    });
  const info = gauge('info', 'A digest of the settings in force. Processes must have the same.', [
    'digest',
  ]);
  const time = gauge('reload_time_seconds', 'Time of the last reload, successful or not.');
  const failed = gauge('reload_failed', 'Whether the last reload failed: 1 or 0.');
  const versions = gauge('generations', 'Versions of the settings under which requests are open.');
  versions.set(1);
  return {
    settings({ digest, reload, generations }) {
      if (generations !== undefined) versions.set(generations);
      if (digest !== undefined) {
        info.reset();
        info.set({ digest }, 1);
      }
      if (!reload) return;
      time.set(reload.at);
      failed.set(Number(!reload.done));
    },
  };
}

function flowMetrics(
  registry: Registry,
  reasons: readonly string[],
): Pick<
  Metrics,
  | 'flow'
  | 'token'
  | 'auditEvent'
  | 'accessRefused'
  | 'unusedConnection'
  | 'auditDropped'
  | 'auditReach'
  | 'auditVerified'
  | 'recheck'
> {
  const count = counters(registry);
  const flows = count('flows_total', 'Steps of connecting, by outcome.', ['step', 'outcome']);
  const tokens = count('tokens_total', 'Token responses with an access token.', ['grant_type']);
  const events = count('events_total', 'Audit log items, by event and reason.', [
    'event',
    'reason',
  ]);
  const refused = count('access_refused_total', 'People who got no access.', ['reason']);
  const unused = count(
    'unused_connections_total',
    'Connections on which no request had arrived two minutes after their token.',
    [],
  );
  const rechecks = count('rechecks_total', 'People asked about again.', ['outcome']);
  const dropped = count('audit_dropped_total', 'Items that are not in the audit log.', ['reason']);
  const reach = new Gauge({
    name: 'gatehouse_audit_calls_reach_seconds',
    help: 'How far back the audit log has all calls of levels that are not recorded.',
    aggregator: 'max',
    registers: [registry],
  });
  const verified = new Gauge({
    name: 'gatehouse_audit_verified',
    help: 'Whether the last day of the audit log is as it was written: 1, or 0 after a finding.',
    aggregator: 'min',
    registers: [registry],
  });
  verified.set(1);
  for (const reason of dropReasons) dropped.inc({ reason }, 0);
  for (const outcome of recheckOutcomes) rechecks.inc({ outcome }, 0);
  for (const step of flowSteps) for (const outcome of flowOutcomes) flows.inc({ step, outcome }, 0);
  for (const reason of accessRefusals) refused.inc({ reason }, 0);
  for (const event of REPLAYS) events.inc({ event, reason: event }, 0);
  const [grantTypeOf, eventOf, reasonOf] = [
    grantTypes,
    auditEvents,
    [...reasons, ...accessRefusals],
  ].map(closed);
  return {
    flow: (step, outcome) => flows.inc({ step, outcome }),
    token: (grantType) => tokens.inc({ grant_type: grantTypeOf?.(grantType) ?? 'other' }),
    accessRefused: (reason) => refused.inc({ reason }),
    unusedConnection: () => unused.inc(),
    auditVerified: (isOk) => verified.set(Number(isOk)),
    auditReach: (seconds) => reach.set(seconds),
    auditDropped: (reason, by) => dropped.inc({ reason }, by),
    recheck: (outcome) => rechecks.inc({ outcome }),
    auditEvent: (name, reason, by = 1) => {
      const known = reason === undefined ? '' : (reasonOf?.(reason) ?? 'other');
      events.inc({ event: eventOf?.(name) ?? 'other', reason: known }, by);
    },
  };
}

function storeMetrics(
  registry: Registry,
): Pick<Metrics, 'noticeDelay' | 'storeLatency' | 'storeError'> {
  const errors = counters(registry)('store_errors_total', 'Store commands that failed.', ['verb']);
  const histogram = (name: string, help: string, label: string, buckets: number[]) =>
    new Histogram({ name, help, labelNames: [label], buckets, registers: [registry] });
  const seconds = histogram(
    'gatehouse_store_seconds',
    'Duration of store commands.',
    'verb',
    STORE_SECONDS,
  );
  const notices = histogram(
    'gatehouse_notice_seconds',
    'Delay from publishing a change, such as a revocation, until this process receives it.',
    'channel',
    NOTICE_SECONDS,
  );
  for (const verb of storeVerbs) errors.inc({ verb }, 0);
  return {
    storeLatency: (verb, took) => seconds.observe({ verb }, took),
    storeError: (verb) => errors.inc({ verb }),
    noticeDelay: (channel, took) => notices.observe({ channel }, took),
  };
}

type DeliveryMetrics = Pick<
  Metrics,
  'deliveryFailure' | 'deliveryRejected' | 'deliveryLost' | 'watchDelivery'
>;

/** Labels are the targets in the settings, and what the receiver of one says at present. */
function deliveryMetrics(
  registry: Registry,
): DeliveryMetrics & { collectDelivery: () => Promise<void> } {
  const count = (name: string, help: string) =>
    counters(registry)(`audit_delivery_${name}_total`, help, ['target']);
  const failures = count('failures', 'Attempts to deliver audit items that failed.');
  const rejected = count('rejected', 'Audit items that the receiver refused.');
  const lost = count('lost', 'Audit items that were trimmed before the target had them.');
  const gauge = (name: string, help: string, ...labelNames: string[]) =>
    new Gauge({
      name: `gatehouse_audit_delivery_${name}`,
      help,
      aggregator: 'max',
      labelNames: ['target', ...labelNames],
      registers: [registry],
    });
  const backlog = gauge('backlog', 'Audit items that are not delivered yet.');
  const oldest = gauge('oldest_seconds', 'Age of the oldest audit item that is not delivered.');
  const refused = gauge('refused', 'The receiver refuses everything, for the reason.', 'reason');
  let read = async (): Promise<readonly DeliveryBacklog[]> => [];
  const collectDelivery = async () => {
    // Without the store, the series are absent.
    const targets = await read().catch(() => []);
    for (const each of [backlog, oldest, refused]) each.reset();
    for (const { id: target, refused: reason, ...each } of targets) {
      backlog.set({ target }, each.backlog);
      oldest.set({ target }, each.oldest);
      if (reason !== undefined) refused.set({ target, reason }, 1);
    }
  };
  return {
    deliveryFailure: (target) => failures.inc({ target }),
    deliveryRejected: (target, items) => rejected.inc({ target }, items),
    deliveryLost: (target, items) => lost.inc({ target }, items),
    watchDelivery(targets, reading) {
      read = reading;
      for (const each of [failures, rejected, lost])
        for (const target of targets) each.inc({ target }, 0);
    },
    collectDelivery,
  };
}

function endingMetrics(
  registry: Registry,
): Pick<Metrics, 'watchEnding'> & { collectEnding: () => Promise<void> } {
  const ending = new Gauge({
    name: 'gatehouse_ending',
    help: 'What ends within 14 days, by kind.',
    aggregator: 'max',
    labelNames: ['kind'],
    registers: [registry],
  });
  let count: (() => Promise<Partial<Record<EndKind, number>>>) | undefined;
  return {
    watchEnding(counting) {
      count = counting;
    },
    async collectEnding() {
      // Without the store, and in processes without the management role, the series are absent.
      const counts = await count?.().catch(() => undefined);
      ending.reset();
      if (counts) for (const kind of endKinds) ending.set({ kind }, counts[kind] ?? 0);
    },
  };
}

function toolMetrics(
  registry: Registry,
): Pick<Metrics, 'watchTools'> & { collectTools: () => Promise<void> } {
  const gauge = (name: string, help: string) =>
    new Gauge({
      name: `gatehouse_upstream_${name}`,
      help,
      aggregator: 'max',
      labelNames: ['upstream'],
      registers: [registry],
    });
  const empty = gauge('connectors_empty', 'Usable connectors that open no tool.');
  const missed = gauge(
    'tools_held_missed',
    'Tools that are held, and were called in the last week.',
  );
  let count: (() => Promise<readonly ToolCounts[]>) | undefined;
  return {
    watchTools(counting) {
      count = counting;
    },
    async collectTools() {
      // While nothing can be counted, there are no values, as with what ends.
      const counts = (await count?.().catch(() => undefined)) ?? [];
      empty.reset();
      missed.reset();
      for (const { upstream, emptyConnectors, missedTools } of counts) {
        empty.set({ upstream }, emptyConnectors);
        missed.set({ upstream }, missedTools);
      }
    },
  };
}

function counters(registry: Registry) {
  return (name: string, help: string, labelNames: string[]) =>
    new Counter({ name: `gatehouse_${name}`, help, labelNames, registers: [registry] });
}
