import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { until } from './until.ts';
import { startDeployment, type Deployment, type RunOptions, type System } from './system.ts';

/** Starts a stopped deployment again. `file` replaces top-level settings of its settings file. */
export async function restartSystem(
  place: Deployment,
  file: Record<string, unknown>,
  settings: Record<string, string> = {},
  options: RunOptions = {},
): Promise<System> {
  const first = JSON.parse(readFileSync(String(place.environment.GATEHOUSE_CONFIG), 'utf8'));
  const path = join(place.facts.dataDir, 'settings-again.yaml');
  writeFileSync(path, JSON.stringify({ ...first, ...file }));
  const system = await startDeployment(place, { GATEHOUSE_CONFIG: path, ...settings }, options);
  await untilReachable(system);
  return system;
}

/** `fetch` notices only with its next request that earlier connections are closed. */
async function untilReachable({ origins, management }: System): Promise<void> {
  for (const origin of [...origins, management])
    await until(`${origin} to answer`, async () => {
      const answer = await fetch(`${origin}/livez`).catch(() => undefined);
      await answer?.text();
      return answer?.status === 200;
    });
}
