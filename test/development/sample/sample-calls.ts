// Arguments for every tool of the sample.
import { TOOLS } from '../../../src/development/sample/tools.ts';

const CALLS: Record<string, Record<string, unknown>[]> = {
  club_overview: [{}],
  visits_by: [{ by: 'weekday' }, { by: 'hour' }, { by: 'month' }, { by: 'site' }],
  revenue_by: [{ by: 'month' }, { by: 'kind' }, { by: 'method' }],
  membership_breakdown: ['plan', 'status', 'age', 'site', 'joined'].map((by) => ({ by })),
  find_members: [{}, { page: 24 }, { name: 'ROSSI' }, { plan: 'founder' }],
  member_visits: [{ memberId: 'M0021' }],
  staff_schedule: [{ weekday: 'Monday' }, { weekday: 'Sunday', site: 'Station' }],
  outstanding_payments: [{}, { page: 2 }],
  member_contact: [{ memberId: 'M0001' }],
  payment_details: [{ memberId: 'M0001' }],
};

/** Every tool with each of its sample arguments. Throws if a tool has none, so that no tool goes untested. */
export const SAMPLE_CALLS = TOOLS.flatMap((tool) => {
  const calls = CALLS[tool.name];
  if (!calls) throw new Error(`${tool.name} has no sample call`);
  return calls.map((given) => ({ tool, given }));
});
