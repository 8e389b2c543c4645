// The proxied calls and streams as text, and their targets.
import { atLeast, atMost, type Report, type Target } from '../targets.ts';
import { textTable } from '../text.ts';
import { median } from '../timing.ts';

const MIN_RATE_RATIO = 0.6;
const MAX_ADDED_MS = 0.5;
const MAX_EVENT_MS = 1;
const MAX_STREAM_KB = 20;
const MAX_PAUSE_MS = 20;
/** The other responses whose rate has a target. */
export const LARGE = '1 MB JSON';
export const EVENT = 'event stream';

export const WAYS = ['direct', 'bare proxy', 'Gatehouse'] as const;
export type Way = (typeof WAYS)[number];
export const PROXY_WAYS = ['bare proxy', 'Gatehouse'] as const;
export type ProxyWay = (typeof PROXY_WAYS)[number];

/** The response that is measured in most detail and has targets. */
export const SMALL = 'small JSON';

/** One turn: calls a second, milliseconds of a call, and microseconds of a processor that the server of this way takes for each. */
export type Turn = { perSecond: number; p50: number; p99: number; cpu: number };
/** `perSecond` is the fixed rate, if there is one. Otherwise each connection calls again as soon as it is answered. */
export type Measured = {
  kind: string;
  connections: number;
  perSecond?: number;
  turns: Record<Way, Turn[]>;
};

/** Milliseconds from server to client, and bytes of resident memory for each of `streams` idle streams. */
export type Streams = {
  events: Record<Way, number[]>;
  bytes: Record<ProxyWay, number>;
  streams: number;
};

/** Milliseconds that nothing else runs, for each call. */
export type Pauses = Record<ProxyWay, number[]>;

export function describeProxied(
  measured: readonly Measured[],
  streams: Streams,
  pauses: Pauses,
): Report {
  const saturated = measured.filter(({ perSecond }) => perSecond === undefined);
  const paced = measured.filter(({ perSecond }) => perSecond !== undefined);
  const rounds = measured[0]?.turns.direct.length ?? 0;
  return {
    text: [
      `Calls directly, through a reverse proxy that only passes bytes on, and through Gatehouse (medians of ${rounds} rounds)`,
      '',
      'Saturated: every connection calls again as soon as it is answered, so ms are little else than connections ÷ rate',
      callTable(saturated),
      '',
      `Below saturation: ${paced[0]?.perSecond} calls a second, milliseconds from the planned start of each`,
      callTable(paced),
      '',
      `Milliseconds until an event reaches the client, and resident kB of each of ${streams.streams} idle streams without garbage`,
      streamTable(streams),
      '',
      'Milliseconds that nothing else runs in the process during a call with a response of 16 MB (median of the longest)',
      textTable(
        ['way', 'ms'],
        PROXY_WAYS.map((way) => [way, median(pauses[way]).toFixed(1)]),
      ),
    ].join('\n'),
    targets: [
      ...saturated.filter(hasRateTarget).map(rateTarget),
      ...saturated.filter(isSmall).map(addedTarget),
      ...paced.map(addedTarget),
      ...streamTargets(streams),
      atMost('longest pause of a response of 16 MB', MAX_PAUSE_MS, 'ms', median(pauses.Gatehouse)),
    ],
  };
}

/** Nearest rank, of sorted values. */
export function quantile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN;
}

function callTable(measured: readonly Measured[]): string {
  const rows = measured.flatMap(({ kind, connections, turns }) =>
    WAYS.map((way) => {
      const of = (part: keyof Turn) => median(turns[way].map((turn) => turn[part]));
      const more = (other: Way) =>
        (['p50', 'p99'] as const).map((part) => added(turns, part, way, other).toFixed(2));
      return [
        kind,
        String(connections),
        way,
        of('perSecond').toFixed(0),
        way === 'direct' ? '' : ratioTo(turns, way, 'bare proxy').toFixed(2),
        of('p50').toFixed(2),
        of('p99').toFixed(2),
        ...(way === 'direct' ? ['', ''] : more('direct')),
        ...(way === 'Gatehouse' ? more('bare proxy') : ['', '']),
        of('cpu').toFixed(0),
      ];
    }),
  );
  const head = [
    'response',
    'connections',
    'way',
    'calls/s',
    'of bare',
    'ms',
    'p99',
    'over direct',
    'p99',
    'over bare',
    'p99',
    'CPU µs',
  ];
  return textTable(head, rows);
}

function streamTable({ events, bytes }: Streams): string {
  const rows = WAYS.map((way) => {
    const sorted = events[way].toSorted((a, b) => a - b);
    return [
      way,
      ...[0.5, 0.99].map((share) => quantile(sorted, share).toFixed(2)),
      ...(way === 'direct' ? ['', ''] : [kilobytes(bytes[way])]),
      ...(way === 'Gatehouse' ? [kilobytes(bytes[way] - bytes['bare proxy'])] : ['']),
    ];
  });
  return textTable(['way', 'event ms', 'p99', 'kB a stream', 'over bare'], rows);
}

function rateTarget({ kind, connections, turns }: Measured): Target {
  const response = kind === SMALL ? '' : `${kind}, `;
  const what = `proxied calls ÷ bare proxy, ${response}${describeConnections(connections)}`;
  return atLeast(what, MIN_RATE_RATIO, ratioTo(turns, 'Gatehouse', 'bare proxy'));
}

function addedTarget({ connections, perSecond, turns }: Measured): Target {
  const load = perSecond === undefined ? 'saturated' : `${perSecond} calls a second`;
  const what = `median of a call over the bare proxy, ${load}, ${describeConnections(connections)}`;
  return atMost(what, MAX_ADDED_MS, 'ms', added(turns, 'p50', 'Gatehouse', 'bare proxy'));
}

function streamTargets({ events, bytes }: Streams): Target[] {
  const event = median(events.Gatehouse) - median(events.direct);
  return [
    atMost('median of an event over a direct stream', MAX_EVENT_MS, 'ms', event),
    atMost(
      'memory of an idle stream, without garbage',
      MAX_STREAM_KB,
      'kB',
      bytes.Gatehouse / 1000,
    ),
  ];
}

function isSmall({ kind }: Measured): boolean {
  return kind === SMALL;
}

function hasRateTarget({ kind, connections }: Measured): boolean {
  return [SMALL, LARGE, EVENT].includes(kind) && connections > 1;
}

function describeConnections(connections: number): string {
  return connections === 1 ? '1 connection' : `${connections} connections`;
}

/** The median of the ratios of each round. */
function ratioTo(turns: Measured['turns'], way: Way, other: Way): number {
  return median(
    turns[way].map(({ perSecond }, n) => perSecond / (turns[other][n]?.perSecond ?? NaN)),
  );
}

/** The median of the differences of each round, in milliseconds. */
function added(turns: Measured['turns'], part: 'p50' | 'p99', way: Way, other: Way): number {
  return median(turns[way].map((turn, n) => turn[part] - (turns[other][n]?.[part] ?? NaN)));
}

function kilobytes(bytes: number): string {
  return (bytes / 1000).toFixed(1);
}
