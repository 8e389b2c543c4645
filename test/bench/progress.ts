// Progress on standard error: seconds since the start, and the current phase of all.

/** A phase of a run, and about how many seconds it takes on two idle cores. */
export type Phase = readonly [name: string, seconds: number];

/** Begins the next phase, which must be the next of the plan. */
export type Begin = (name: string) => void;

export function logProgress(what: string): void {
  console.error(`${(performance.now() / 1000).toFixed(0).padStart(4)} s  ${what}`);
}

/** `title` precedes each line. */
export function followPhases(
  phases: readonly Phase[],
  title = '',
  log: (line: string) => void = logProgress,
): Begin {
  let begun = 0;
  return (name) => {
    const [planned, seconds = 0] = phases[begun] ?? [];
    if (planned !== name) throw new Error(`the next phase is ${planned}, not ${name}`);
    begun += 1;
    log(`${title}phase ${begun} of ${phases.length}: ${name} (about ${Math.ceil(seconds)} s)`);
  };
}

export function secondsOf(phases: readonly Phase[]): number {
  return phases.reduce((sum, [, seconds]) => sum + seconds, 0);
}
