// What each permission level means, in words for the consent page, for the built-in analytics sample (a fitness club).
import type { Level } from '../permission-level.ts';

/** `sees` and `hidden` are sentences; `example` is something an app could learn at this level and at none below it. */
export type LevelText = { title: string; sees: string; hidden: string; example: string };

export const LEVEL_TEXTS: Record<Level, LevelText> = {
  analytics: {
    title: 'Totals only',
    sees: 'Counts, sums and averages over groups of at least five people.',
    hidden: 'Every name, and everything about a single person.',
    example: '“Monday yoga has 42 visits on average.”',
  },
  operations: {
    title: 'Totals and names',
    sees: 'Totals, and the names of members and staff.',
    hidden: 'E-mail addresses, phone numbers and payment details.',
    example: '“Maria Silva is booked for yoga on Monday.”',
  },
  admin: {
    title: 'Names and contact details',
    sees: 'Totals, names, e-mail addresses and phone numbers.',
    hidden: 'Payment details.',
    example: '“Maria Silva can be reached at maria@example.com.”',
  },
  full: {
    title: 'Everything',
    sees: 'Totals, names, contact details, bank account and card numbers.',
    hidden: 'Nothing stays hidden. Every call is recorded.',
    example: '“Maria Silva pays from DE89 3704 0044 0532 0130 00.”',
  },
};
