// The operator's own credential at an upstream that answers nobody without one. Only the tools are read with it: no call has it.
import { randomBytes } from 'node:crypto';
import type { Settings } from '../settings/settings.ts';
import type { Upstream } from '../settings/upstreams.ts';
import type { Store } from '../store/store.ts';
import { CREDENTIALS_PATH } from './page-address.ts';

/** In place of the account. No account has this id. */
export const OPERATOR = 'operator';

/** Lets a browser connect the operator's account. */
type Ticket = { upstream: string; by: string | undefined };

const TICKET_SECONDS = 900;
const ticketKey = (ticket: string) => `operator-ticket:${ticket}`;

/** Whether tools are read with a credential of the operator: where there is one to get, and no `headers`. */
export function isReadByOperator({ credential, headers }: Upstream): boolean {
  const canConnect = credential?.kind === 'oauth' || credential?.kind === 'key';
  return canConnect && Object.keys(headers).length === 0;
}

/** Returns the address where the account is connected, for some minutes. */
export async function createOperatorAddress(
  { authUrl }: Pick<Settings, 'authUrl'>,
  store: Store,
  ticket: Ticket,
): Promise<{ url: string; expiresIn: number }> {
  const id = randomBytes(24).toString('base64url');
  await store.set(ticketKey(id), ticket, TICKET_SECONDS);
  const url = `${authUrl}${CREDENTIALS_PATH}/${ticket.upstream}/operator?ticket=${id}`;
  return { url, expiresIn: TICKET_SECONDS };
}

/** Undefined if it was made for another upstream, or has expired. */
export async function findOperatorTicket(
  store: Store,
  upstream: string,
  id: string,
): Promise<Ticket | undefined> {
  const ticket = (await store.get<Ticket>(ticketKey(id)))?.value;
  return ticket?.upstream === upstream ? ticket : undefined;
}
