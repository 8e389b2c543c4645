// The made-up people, plans and sites of the sample fitness club; no address, number or account in it can belong to anybody.

export const SITES = ['Riverside', 'Old Town', 'Station'] as const;
export const PLANS = ['basic', 'plus', 'premium', 'student', 'founder'] as const;
export const STATUSES = ['active', 'paused', 'left'] as const;
export const WEEKDAYS = [
  'Monday',
  'Tuesday',
  'Wednesday',
  'Thursday',
  'Friday',
  'Saturday',
  'Sunday',
] as const;
export const ROLES = ['trainer', 'front desk', 'physiotherapist', 'cleaner'] as const;

const GIVEN =
  'Amara Anton Bea Boris Carla Chidi Dana Davide Edda Emil Farah Felix Greta Hanno Ida Ilir Jana Jonas Kaia Kenji Lara Luca Maren Milan Nadia Nils Olga Oskar Paula Pavel Rana Remy Sanna Silas Tarek Thea Uma Viggo Yara Zeno';
const FAMILY =
  'Abend Adeyemi Bakker Berg Castell Conti Dahl Demir Eklund Esposito Fabre Falk Gruber Haas Horvat Ibsen Ivanova Jansen Jovic Kaya Keller Lind Lopez Marek Moreau Nagy Novak Okafor Olsen Park Petit Quist Rossi Sato Silva Tanaka Unger Varga Weber Zeller';

const givenNames = GIVEN.split(' ');
const familyNames = FAMILY.split(' ');

export type Person = { name: string; email: string; phone: string; iban: string; card: string };

/** The `index`-th person, 0 to 999, each with another name. */
export function person(index: number): Person {
  const given = givenNames[index % 40] ?? '';
  const family = familyNames[(index * 7 + Math.floor(index / 40)) % 40] ?? '';
  const account = String(10_000_000 + index * 7919);
  return {
    name: `${given} ${family}`,
    email: `${given}.${family}@example.com`.toLowerCase(),
    // Ofcom keeps this range for drama.
    phone: `+44 7700 ${900_000 + index}`,
    // Check digits are never 00.
    iban: `GB00 GATE 6016 13${account.slice(0, 2)} ${account.slice(2, 6)} ${account.slice(6)}`,
    card: `**** **** **** ${account.slice(4)}`,
  };
}

/** A repeatable sequence of numbers from 0 up to 1 (mulberry32), the same for the same seed on every machine. */
export function sequence(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d_2b_79_f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
