// Every tool of the analytics sample, lowest level first, and the level each one needs.
import type { Level } from '../../permission-level.ts';
import { clubOverview, membershipBreakdown, revenueBy, visitsBy } from './aggregates.ts';
import { memberContact, paymentDetails } from './personal-details.ts';
import { findMembers, memberVisits, outstandingPayments, staffSchedule } from './records.ts';
import type { Tool } from './tool.ts';

export const TOOLS: readonly Tool[] = [
  clubOverview,
  visitsBy,
  revenueBy,
  membershipBreakdown,
  findMembers,
  memberVisits,
  staffSchedule,
  outstandingPayments,
  memberContact,
  paymentDetails,
];

export const TOOL_LEVELS: ReadonlyMap<string, Level> = new Map(
  TOOLS.map(({ name, level }) => [name, level]),
);
