// The part of PromQL that our alerts and dashboard use, over two readings of /metrics. The window of a rate is the time between them.
import type { Sample } from '../support/metrics.ts';

/** Two readings and the seconds between them. */
export type Readings = { before: readonly Sample[]; now: readonly Sample[]; seconds: number };

type Value = { labels: Record<string, string>; value: number };

const TOKEN = /\s*([a-z_][a-z0-9_]*|[\d.]+|"[^"]*"|=~|!=|==|[(){}[\],=><*/])/gy;

/** Evaluates an expression; an alert fires if the result is not empty. Throws on unsupported syntax. */
export function evaluate(expression: string, readings: Readings): Value[] {
  const tokens = [...expression.matchAll(TOKEN)].map(([, token = '']) => token);
  if (tokens.join('') !== expression.replaceAll(/\s/g, ''))
    throw new Error(`not understood: ${expression}`);
  const reader = openReader(tokens);
  const values = comparison(reader, readings);
  if (reader.peek() !== undefined) throw new Error(`too much: ${reader.peek()} in ${expression}`);
  return values;
}

function openReader(tokens: string[]) {
  let at = 0;
  const next = () => tokens[at++] ?? '';
  return {
    peek: () => tokens[at],
    next,
    take(expected: string) {
      const token = next();
      if (token !== expected) throw new Error(`${expected} expected, not ${token}`);
    },
    is(expected: string) {
      if (tokens[at] !== expected) return false;
      at += 1;
      return true;
    },
  };
}

type Reader = ReturnType<typeof openReader>;

function comparison(reader: Reader, readings: Readings): Value[] {
  const left = product(reader, readings);
  if (reader.is('>')) {
    const limit = Number(reader.next());
    return left.filter(({ value }) => value > limit);
  }
  if (reader.is('<')) {
    const limit = Number(reader.next());
    return left.filter(({ value }) => value < limit);
  }
  if (!reader.is('==')) return left;
  const wanted = Number(reader.next());
  return left.filter(({ value }) => value === wanted);
}

function product(reader: Reader, readings: Readings): Value[] {
  const left = term(reader, readings);
  if (reader.is('*')) {
    const factor = Number(reader.next());
    return left.map(({ labels, value }) => ({ labels, value: value * factor }));
  }
  if (!reader.is('/')) return left;
  const [divisor] = term(reader, readings);
  return left.map(({ labels, value }) => ({ labels, value: value / (divisor?.value ?? NaN) }));
}

function term(reader: Reader, readings: Readings): Value[] {
  const name = reader.next();
  if (name === 'sum' || name === 'max') return aggregate(name, reader, readings);
  if (name === 'rate' || name === 'increase') {
    reader.take('(');
    const grown = selected(reader.next(), reader, readings, true);
    reader.take(')');
    const per = name === 'rate' ? readings.seconds : 1;
    return grown.map(({ labels, value }) => ({ labels, value: value / per }));
  }
  if (name !== 'histogram_quantile') return selected(name, reader, readings, false);
  reader.take('(');
  const part = Number(reader.next());
  reader.take(',');
  const buckets = term(reader, readings);
  reader.take(')');
  return quantiles(part, buckets);
}

function aggregate(name: 'sum' | 'max', reader: Reader, readings: Readings): Value[] {
  const by = reader.is('by') ? list(reader) : [];
  reader.take('(');
  const values = term(reader, readings);
  reader.take(')');
  return grouped(values, by).map((group) => {
    const numbers = group.values.map(({ value }) => value);
    const value = name === 'max' ? Math.max(...numbers) : numbers.reduce((a, b) => a + b, 0);
    return { labels: group.labels, value };
  });
}

function grouped(values: readonly Value[], by: readonly string[]) {
  const labelsOf = ({ labels }: Value) =>
    Object.fromEntries(by.map((key) => [key, labels[key] ?? '']));
  const groups = Map.groupBy(values, (value) => JSON.stringify(labelsOf(value)));
  return [...groups].map(([labels, members]) => ({
    labels: JSON.parse(labels) as Record<string, string>,
    values: members,
  }));
}

function list(reader: Reader): string[] {
  const names: string[] = [];
  reader.take('(');
  do names.push(reader.next());
  while (reader.is(','));
  reader.take(')');
  return names;
}

function selected(name: string, reader: Reader, readings: Readings, isGrowth: boolean): Value[] {
  const fits = reader.is('{') ? matchers(reader) : () => true;
  if (isGrowth) {
    reader.take('[');
    while (!reader.is(']')) reader.next();
  }
  const isWanted = (sample: Sample) => sample.name === name && fits(sample.labels);
  const key = ({ labels }: Sample) => JSON.stringify(labels);
  const earlier = new Map(readings.before.filter(isWanted).map((one) => [key(one), one.value]));
  return readings.now.filter(isWanted).map((sample) => ({
    labels: sample.labels,
    // Prometheus does not count a series that starts late as growth either.
    value: isGrowth ? sample.value - (earlier.get(key(sample)) ?? sample.value) : sample.value,
  }));
}

function matchers(reader: Reader): (labels: Record<string, string>) => boolean {
  const all: ((labels: Record<string, string>) => boolean)[] = [];
  do {
    const [label, operator, quoted] = [reader.next(), reader.next(), reader.next()];
    const text = quoted.slice(1, -1);
    const pattern = new RegExp(`^(?:${text})$`);
    all.push((labels) => {
      const value = labels[label] ?? '';
      if (operator === '=~') return pattern.test(value);
      return operator === '=' ? value === text : value !== text;
    });
  } while (reader.is(','));
  reader.take('}');
  return (labels) => all.every((fits) => fits(labels));
}

/** Interpolates linearly within the bucket of the rank, as Prometheus does. */
function quantiles(part: number, buckets: readonly Value[]): Value[] {
  const names = Object.keys(buckets[0]?.labels ?? {}).filter((name) => name !== 'le');
  return grouped(buckets, names).flatMap(({ labels, values }) => {
    const sorted = values
      .map((one) => ({
        bound: Number(one.labels.le?.replace('+Inf', 'Infinity')),
        count: one.value,
      }))
      .toSorted((a, b) => a.bound - b.bound);
    const rank = part * (sorted.at(-1)?.count ?? 0);
    const index = sorted.findIndex(({ count }) => count >= rank);
    if (rank === 0 || index < 0) return [];
    const [below, found] = [sorted[index - 1] ?? { bound: 0, count: 0 }, sorted[index]];
    if (!found || found.bound === Infinity) return [{ labels, value: below.bound }];
    const share = (rank - below.count) / (found.count - below.count);
    return [{ labels, value: below.bound + (found.bound - below.bound) * share }];
  });
}
