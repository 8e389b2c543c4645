// The connections that a change would end or lower, as pages show them.
import type { AffectedMembers } from '../resources/affected.ts';
import { epochSeconds } from '../resources/fields.ts';
import { recordPath } from './address.ts';

const MAX_SHOWN = 50;
const MAX_TOOLS = 20;

export function affectedValues({ affected = [], isAffectedPartial }: AffectedMembers) {
  return {
    count: affected.length,
    isAll: isAffectedPartial === undefined,
    affected: affected
      .slice(0, MAX_SHOWN)
      .map(({ grantId, account, client, before, after, lostTools, mayLoseUnknown }) => ({
        href: recordPath('grants', grantId),
        app: client.name,
        person: account.name ?? account.id,
        before: before.level,
        after: after.level,
        lost: lostTools?.slice(0, MAX_TOOLS).join(', '),
        mayLoseUnknown,
        reasonKey:
          after.reason === undefined || after.reason === before.reason
            ? undefined
            : `console.reasons.${after.reason}`,
        endsAt: after.endsAt === undefined ? undefined : epochSeconds(after.endsAt),
      })),
  };
}
