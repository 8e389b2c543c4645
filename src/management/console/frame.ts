// What stands around every page of the console: which section it is, who is signed in, and what has just been done or gone wrong.
import type { ViewValues } from '../../http/pages.ts';
import type { Visit } from './visit.ts';

export type Frame = ViewValues['console/connectors']['console'];

const SECTIONS = [
  'connectors',
  'tokens',
  'clients',
  'grants',
  'accounts',
  'audit',
  'health',
] as const;
export type Section = (typeof SECTIONS)[number];

const DONE = [
  'created',
  'revoked',
  'deleted',
  'ended',
  'allowed',
  'disabled',
  'enabled',
  'forgotten',
] as const;

/** `problem`: the key below `console.problems` of what was wrong with a form. */
export function frameOf(
  { ctx, session }: Visit,
  section: Section,
  problem?: Frame['problem'],
): Frame {
  const done = DONE.find((known) => known === ctx.query.done);
  return {
    section,
    sections: SECTIONS.map((name) => ({ name, href: `/console/${name}` })),
    administrator: session.account.name,
    token: session.formToken,
    ...(problem ? { problem } : {}),
    ...(done && !problem ? { done } : {}),
  };
}

/** Seconds since the epoch of an ISO 8601 time. */
export function secondsOf(time: string): number {
  return Math.floor(Date.parse(time) / 1000);
}
