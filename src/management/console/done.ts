// What the last action did, in the address of the page that is shown afterwards. Names are read from the records, never from the address.
import type Koa from 'koa';
import { HttpError } from '../../http/errors.ts';
import { isMachineSubject } from '../../connections/machine-subject.ts';
import { searchAudit } from '../audit-log.ts';
import type { ManagementContext } from '../context.ts';
import { grantHandlers } from '../grants.ts';
import { personName } from '../resources/grant.ts';

/** `done` is the key below `console.done`, or below `console.doneTo` if there are `doneValues`. */
export type DoneValues = { done?: string; doneValues?: Record<string, string> };

const KEY = /^[a-z-]+$/;

/** Returns the address of the page that is shown after an action. `about` is the id of the record that changed. */
export function afterAction(page: string, done: string, about?: string): string {
  const query = new URLSearchParams({ done, ...(about === undefined ? {} : { about }) });
  return `${page}${page.includes('?') ? '&' : '?'}${query}`;
}

export async function readDone(
  management: ManagementContext,
  { query }: Koa.Context,
): Promise<DoneValues> {
  const { done, about } = query;
  const { has } = management.services.pages.translator([]);
  if (typeof done !== 'string' || !KEY.test(done) || !has(`console.done.${done}`)) return {};
  const found = typeof about === 'string' ? await NAMES[done]?.(management, about) : undefined;
  return found ?? { done };
}

const NAMES: Record<string, typeof endedNames | undefined> = {
  ended: endedNames,
  deleted: deletedNames,
};

async function endedNames(
  management: ManagementContext,
  id: string,
): Promise<DoneValues | undefined> {
  const grant = await grantHandlers.showGrant(management, { id }).catch(withoutRecord);
  if (grant?.state !== 'ended' || grant.connectorName === undefined) return undefined;
  const values = { app: grant.clientName, connector: grant.connectorName };
  return isMachineSubject(grant.account)
    ? { done: 'endedMachine', doneValues: values }
    : { done: 'ended', doneValues: { ...values, person: personName(grant) } };
}

/** A deleted connector has its name only in the audit log. */
async function deletedNames(
  management: ManagementContext,
  id: string,
): Promise<DoneValues | undefined> {
  const filter = { event: 'connector_deleted', limit: MAX_DELETED, newestFirst: true };
  const { items } = await searchAudit(management, filter);
  const found = items.find(({ connector }) => connector === id)?.arguments;
  const name = typeof found === 'object' && found !== null && 'name' in found && found.name;
  return typeof name === 'string'
    ? { done: 'deleted', doneValues: { connector: name } }
    : undefined;
}

const MAX_DELETED = 20;

function withoutRecord(error: unknown): undefined {
  if (!(error instanceof HttpError) || error.status !== 404) throw error;
}
