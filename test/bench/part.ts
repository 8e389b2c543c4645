// The interface of a part of `npm run bench`.
import type { Options } from './options.ts';
import type { Begin, Phase } from './progress.ts';
import type { Place } from './subjects.ts';
import type { Report } from './targets.ts';

export type Part = {
  /** What `measure` begins, in order. */
  phases(options: Options): Phase[];
  /** Throws if a request fails. */
  measure(place: Place, begin: Begin, options: Options): Promise<Report>;
};
