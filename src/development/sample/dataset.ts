// The data of the sample: one year of a fitness club, generated in memory. All people, addresses and accounts are invented.
import { DatabaseSync } from 'node:sqlite';

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
const ROLES = ['trainer', 'front desk', 'physiotherapist', 'cleaner'] as const;

const GIVEN =
  'Amara Anton Bea Boris Carla Chidi Dana Davide Edda Emil Farah Felix Greta Hanno Ida Ilir Jana Jonas Kaia Kenji Lara Luca Maren Milan Nadia Nils Olga Oskar Paula Pavel Rana Remy Sanna Silas Tarek Thea Uma Viggo Yara Zeno';
const FAMILY =
  'Abend Adeyemi Bakker Berg Castell Conti Dahl Demir Eklund Esposito Fabre Falk Gruber Haas Horvat Ibsen Ivanova Jansen Jovic Kaya Keller Lind Lopez Marek Moreau Nagy Novak Okafor Olsen Park Petit Quist Rossi Sato Silva Tanaka Unger Varga Weber Zeller';

const givenNames = GIVEN.split(' ');
const familyNames = FAMILY.split(' ');

type Person = { name: string; email: string; phone: string; iban: string; card: string };

/** Each index from 0 to 999 has another name. */
function person(index: number): Person {
  const given = givenNames[index % 40] ?? '';
  const family = familyNames[(index * 7 + Math.floor(index / 40)) % 40] ?? '';
  const account = String(10_000_000 + index * 7919);
  return {
    name: `${given} ${family}`,
    email: `${given}.${family}@example.com`.toLowerCase(),
    // Ofcom reserves this range for fiction.
    phone: `+44 7700 ${900_000 + index}`,
    // Valid IBANs never have the check digits 00.
    iban: `GB00 GATE 6016 13${account.slice(0, 2)} ${account.slice(2, 6)} ${account.slice(6)}`,
    card: `**** **** **** ${account.slice(4)}`,
  };
}

/** Seeded pseudo-random numbers in [0, 1) (mulberry32). */
function seededRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d_2b_79_f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** The period of the data. Overdue payments are computed as of the last day. */
export const FIRST_DAY = '2025-01-01';
export const LAST_DAY = '2025-12-31';
export const CURRENCY = 'EUR';

const MEMBERS = 600;
const STAFF = 30;
const VISITS = 8000;
const PURCHASES = 600;
const FEES = { basic: 2900, plus: 4500, premium: 6900, student: 1900, founder: 1000 };
const AGES = ['16-24', '25-34', '35-44', '45-59', '60-74'] as const;
const HOURS = [6, 7, 7, 8, 9, 10, 12, 13, 16, 17, 17, 18, 18, 19, 20, 21] as const;

const SCHEMA = `
  CREATE TABLE member (id TEXT PRIMARY KEY, name TEXT, email TEXT, phone TEXT, iban TEXT, card TEXT,
    plan TEXT, site TEXT, age TEXT, status TEXT, joined_on TEXT, method TEXT) STRICT;
  CREATE TABLE staff (id TEXT PRIMARY KEY, name TEXT, email TEXT, phone TEXT, role TEXT, site TEXT) STRICT;
  CREATE TABLE shift (staff_id TEXT, weekday TEXT, starts_at TEXT, ends_at TEXT) STRICT;
  CREATE TABLE visit (member_id TEXT, site TEXT, at TEXT) STRICT;
  CREATE TABLE payment (id INTEGER PRIMARY KEY, member_id TEXT, kind TEXT, cents INTEGER, due_on TEXT, paid_on TEXT) STRICT;
  CREATE INDEX visit_member ON visit (member_id);
  CREATE INDEX payment_member ON payment (member_id);`;

/** Builds the data set, read-only. The caller closes it. */
export function openDataset(seed = 2025): DatabaseSync {
  const dataset = new DatabaseSync(':memory:');
  const fill = { dataset, random: seededRandom(seed) };
  dataset.exec(`${SCHEMA} BEGIN`);
  const members = addMembers(fill);
  addStaff(fill);
  addVisits(fill, members);
  addPayments(fill, members);
  dataset.exec('COMMIT; PRAGMA query_only = ON');
  return dataset;
}

let shared: DatabaseSync | undefined;

/** The data set that all requests of this process read. It is built at the first call, and never closed. */
export function sharedDataset(): DatabaseSync {
  return (shared ??= openDataset());
}

type Fill = { dataset: DatabaseSync; random: () => number };
type Member = { id: string; plan: keyof typeof FEES; site: string; status: string; since: number };

function addMembers({ dataset, random }: Fill): Member[] {
  const insert = dataset.prepare('INSERT INTO member VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)');
  return Array.from({ length: MEMBERS }, (_, index) => {
    const { name, email, phone, iban, card } = person(index);
    const member: Member = {
      id: `M${String(index + 1).padStart(4, '0')}`,
      // Some groups are small on purpose, to show suppression.
      plan: index < 3 ? 'founder' : pick(PLANS.slice(0, 4) as Member['plan'][], random),
      site: pick(SITES, random),
      status: pick(['active', 'active', 'active', 'active', 'active', 'paused', 'left'], random),
      since: Math.floor(random() * -2190) + 300,
    };
    const age = index >= 3 && index < 7 ? '75+' : pick(AGES, random);
    const method = index >= 10 && index < 13 ? 'cheque' : pick(['direct debit', 'card'], random);
    const { id, plan, site, status, since } = member;
    insert.run(id, name, email, phone, iban, card, plan, site, age, status, day(since), method);
    return member;
  });
}

function addStaff({ dataset, random }: Fill): void {
  const staff = dataset.prepare('INSERT INTO staff VALUES (?, ?, ?, ?, ?, ?)');
  const shift = dataset.prepare('INSERT INTO shift VALUES (?, ?, ?, ?)');
  for (let index = 0; index < STAFF; index += 1) {
    const { name, email, phone } = person(MEMBERS + index);
    const id = `S${String(index + 1).padStart(2, '0')}`;
    staff.run(id, name, email, phone, pick(ROLES, random), pick(SITES, random));
    const daysOff = Math.floor(random() * 7);
    for (const weekday of WEEKDAYS.filter((_, number) => (number + daysOff) % 7 < 5)) {
      const [starts, ends] = pick(['06:00 14:00', '09:00 17:00', '14:00 22:00'], random).split(' ');
      shift.run(id, weekday, starts ?? null, ends ?? null);
    }
  }
}

function addVisits({ dataset, random }: Fill, members: Member[]): void {
  const insert = dataset.prepare('INSERT INTO visit VALUES (?, ?, ?)');
  const visit = (member: Member, hour: number) => {
    const from = Math.max(0, member.since);
    const date = day(from + Math.floor(random() * (365 - from)));
    const site = random() < 0.8 ? member.site : pick(SITES, random);
    const minute = String(Math.floor(random() * 60)).padStart(2, '0');
    insert.run(member.id, site, `${date}T${String(hour).padStart(2, '0')}:${minute}`);
  };
  for (let count = 0; count < VISITS; count += 1) {
    visit(
      pick(members, () => random() ** 1.5),
      pick(HOURS, random),
    );
  }
  for (const earlyBird of members.slice(20, 22)) visit(earlyBird, 5);
}

function addPayments({ dataset, random }: Fill, members: Member[]): void {
  const insert = dataset.prepare('INSERT INTO payment VALUES (NULL, ?, ?, ?, ?, ?)');
  for (const { id, plan, since, status } of members) {
    for (let month = 0; month < (status === 'left' ? 9 : 12); month += 1) {
      const dueOn = `2025-${String(month + 1).padStart(2, '0')}-01`;
      const unpaid = month > 8 && random() < 0.04;
      if (day(since) < dueOn)
        insert.run(id, 'membership', FEES[plan], dueOn, unpaid ? null : dueOn);
    }
  }
  for (let count = 0; count < PURCHASES; count += 1) {
    const { id, since } = pick(members, random);
    const on = day(Math.max(0, since) + Math.floor(random() * (365 - Math.max(0, since))));
    const [kind, cents] =
      random() < 0.4
        ? ['personal training', 4500]
        : ['shop', 500 + Math.floor(random() * 50) * 100];
    insert.run(id, kind ?? '', cents ?? 0, on, on);
  }
}

function pick<T>(list: readonly T[], random: () => number): T {
  return list[Math.floor(random() * list.length)] as T;
}

/** ISO 8601 date, `offset` days after FIRST_DAY. */
function day(offset: number): string {
  return new Date(Date.parse(FIRST_DAY) + offset * 86_400_000).toISOString().slice(0, 10);
}
