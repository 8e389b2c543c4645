// Reads and parses /metrics.
import type { System } from './system.ts';

export type Sample = { name: string; labels: Record<string, string>; value: number };

export async function readMetricsText(system: System): Promise<string> {
  const answer = await fetch(`${system.management}/metrics`, {
    headers: { authorization: `Bearer ${system.managementKey}` },
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`/metrics answered ${answer.status} ${text}`);
  return text;
}

export async function readMetrics(system: System): Promise<Sample[]> {
  return parseMetrics(await readMetricsText(system));
}

/** Throws on a line that Prometheus would reject. */
export function parseMetrics(text: string): Sample[] {
  return text
    .split('\n')
    .filter((line) => line !== '' && !/^# (HELP|TYPE) [a-z0-9_]+ \S/.test(line))
    .map((line) => {
      const [, name, labels = '', value] = /^([a-z0-9_]+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
      if (name === undefined || value === undefined || !/^([-+\d.e]+|nan)$/i.test(value))
        throw new Error(`no line of metrics: ${line}`);
      return { name, labels: labelsIn(labels), value: Number(value) };
    });
}

function labelsIn(text: string): Record<string, string> {
  return Object.fromEntries(
    [...text.matchAll(/([a-z_]+)="([^"]*)"/g)].map(([, name, value]) => [name, value]),
  );
}

/** The sum of all samples with this name and these labels. */
export function sumOf(
  samples: readonly Sample[],
  name: string,
  labels: Record<string, string> = {},
): number {
  return samples
    .filter((sample) => sample.name === name)
    .filter((sample) =>
      Object.entries(labels).every(([key, value]) => sample.labels[key] === value),
    )
    .reduce((sum, { value }) => sum + value, 0);
}
