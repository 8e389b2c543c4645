import { expect } from 'chai';
import { isAtLeast, type Level } from '../../../src/permission-levels.ts';
import { DEFAULT_LEVELS, LEVELS } from '../../support/levels.ts';
import { callerWith, useMcp } from './mcp-host.ts';
import { SAMPLE_CALLS } from './sample-calls.ts';

/** Repeated by hand, so that a single change in the source cannot change what a level sees. */
const SEEN_FROM: Record<(typeof LEVELS)[number], string> = {
  analytics:
    'by from to currency sites groups group total people members activeMembers visitors payers debtors staff visits payments revenue outstanding',
  operations:
    'name memberId staffId role plan site status joinedOn matches found nextPage attended at shifts weekday startsAt endsAt unpaid paymentId kind method amount dueOn daysOverdue paidOn',
  admin: 'email phone',
  full: 'iban card history',
};

/** The fields that each tool finds at any level. */
const FIELDS: Record<string, string> = {
  club_overview:
    'from to currency sites members people activeMembers visitors visits payers payments revenue debtors outstanding staff',
  visits_by: 'by from to groups group people visits members total',
  revenue_by: 'currency by from to groups group people payments revenue members total',
  membership_breakdown: 'by from to groups group people members total',
  find_members: 'matches found memberId name email phone plan site status joinedOn nextPage',
  member_visits: 'memberId name matches attended at site nextPage',
  staff_schedule: 'weekday shifts staffId name role site email phone startsAt endsAt',
  outstanding_payments:
    'currency matches unpaid paymentId memberId name email phone iban card site kind method amount dueOn daysOverdue nextPage',
  member_contact: 'memberId name email phone',
  payment_details:
    'memberId name method iban card currency history paymentId kind amount dueOn paidOn',
};

/** Added at analytics where numbers are suppressed. */
const SUPPRESSED = 'suppressed';

function levelOf(field: string): Level {
  const level = LEVELS.find((each) => SEEN_FROM[each].split(' ').includes(field));
  if (!level) throw new Error(`${field} is not in the table`);
  return level;
}

function fieldsIn(value: unknown, found = new Set<string>()): Set<string> {
  JSON.stringify(value, (field, inner) => {
    if (field !== '' && !/^\d+$/.test(field)) found.add(field);
    return inner;
  });
  return found;
}

type Answers = { text: Set<string>; structure: Set<string>; refusals: number };

function readInto(answers: Answers, result: Record<string, unknown>): void {
  const { content, structuredContent, isError } = result;
  const [part] = content as { text: string }[];
  if (isError === true) {
    answers.refusals += 1;
    expect(structuredContent).to.equal(undefined);
    expect(part?.text).to.match(/needs the permission level/);
    return;
  }
  fieldsIn(structuredContent, answers.structure);
  fieldsIn(JSON.parse(part?.text ?? ''), answers.text);
}

describe("The fields of the sample's tools", () => {
  const { serve, connect, connectFirst } = useMcp();
  const clients = {
    'SDK v1': connectFirst,
    'SDK v2, 2025 revisions': (url: URL) => connect(url, 'legacy'),
    'SDK v2, revision 2026-07-28': (url: URL) => connect(url),
  };

  /** Every level with one client, and the clients of earlier revisions at one level each. */
  const PAIRS: [Level, keyof typeof clients][] = [
    ...LEVELS.map((level): [Level, keyof typeof clients] => [level, 'SDK v2, revision 2026-07-28']),
    ['analytics', 'SDK v1'],
    ['full', 'SDK v2, 2025 revisions'],
  ];

  for (const [level, name] of PAIRS)
    it(`every field is shown from its level on, and not below: ${level}, ${name}`, async () => {
      const client = await clients[name]((await serve(callerWith(level, 'full'))).url);
      for (const [tool, fields] of Object.entries(FIELDS)) {
        const calls = SAMPLE_CALLS.filter((call) => call.tool.name === tool);
        const answers: Answers = { text: new Set(), structure: new Set(), refusals: 0 };
        for (const { given } of calls)
          readInto(answers, await client.callTool({ name: tool, arguments: given }));
        const isAllowed = isAtLeast(DEFAULT_LEVELS, level, calls[0]?.tool.level ?? 'full');
        const seen = fields
          .split(' ')
          .filter((field) => isAtLeast(DEFAULT_LEVELS, level, levelOf(field)));
        for (const found of [answers.structure, answers.text]) {
          found.delete(SUPPRESSED);
          expect([...found], `${tool} at ${level}`).to.have.members(isAllowed ? seen : []);
        }
        expect(answers.refusals, tool).to.equal(isAllowed ? 0 : calls.length);
      }
    });

  it('the table of this test has every field and every tool', () => {
    expect(Object.keys(FIELDS)).to.have.members(
      SAMPLE_CALLS.map(({ tool }) => tool.name).filter(isFirst),
    );
    const all = new Set(Object.values(FIELDS).flatMap((fields) => fields.split(' ')));
    expect([...all]).to.have.members(LEVELS.flatMap((level) => SEEN_FROM[level].split(' ')));
  });
});

function isFirst<T>(item: T, index: number, all: readonly T[]): boolean {
  return all.indexOf(item) === index;
}
