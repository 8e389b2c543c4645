// Serves sample pages to the tests of a `describe`.
import { openPages } from '../../src/pages/pages.ts';
import {
  EXAMPLE_THEME,
  groupedNames,
  type Sample,
  SAMPLES,
  serveSamples,
  SHARED,
} from './sample-pages.ts';

type Served = Awaited<ReturnType<typeof serveSamples>>;

/** One server for all tests of the surrounding `describe`. Call the result in a test or hook. */
export function useSamples(
  samples: Record<string, Sample> = SAMPLES,
  theme?: string,
): () => Pick<Served, 'url' | 'posts'> {
  let served: Served | undefined;
  before(async () => {
    served = await serveSamples(openPages(SHARED, theme), samples);
  });
  beforeEach(() => void served?.posts.splice(0));
  after(() => served?.close());
  return () => {
    if (!served) throw new Error('the samples are served only while tests run');
    return served;
  };
}

export type Group = {
  names: string[];
  /** The first is English; the second, if any, has the longest words. */
  languages: string[];
  /** Whether no other group has these texts in all languages. */
  hasOtherTexts: boolean;
  theme?: string;
};

const { first, others, console } = groupedNames();

/** Every sample page, by the title of its group. */
export const GROUPS: Record<string, Group> = {
  'the pages': {
    names: first,
    languages: ['en', 'de', 'fr', 'es', 'pt', 'ja'],
    hasOtherTexts: true,
  },
  'the pages with other values': {
    names: others,
    languages: ['en', 'de'],
    hasOtherTexts: false,
  },
  'the pages of the console': { names: console, languages: ['en'], hasOtherTexts: false },
  'the pages in the example theme': {
    names: ['consent', 'error', 'home'],
    languages: ['en', 'nl'],
    hasOtherTexts: true,
    theme: EXAMPLE_THEME,
  },
};
