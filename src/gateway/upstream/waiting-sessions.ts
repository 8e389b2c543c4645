// Sessions of apps that began before the person had connected the own account at the upstream. The app's `initialize` is kept, and sent to the
// upstream with the first request that has a credential.
import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Store } from '../../store/store.ts';
import type { Caller } from '../authenticate.ts';
import type { IdBinder } from './bound-ids.ts';

export type WaitingSession = {
  id: string;
  /** Of the app's `initialize`. */
  params: unknown;
  /** The session of the upstream, for this credential. It may have none. `revision`: in place of the app's, which the upstream refuses. */
  opened?: { epoch: string; session?: string; revision?: string };
};

export type WaitingSessions = {
  /** Returns the id for the app. */
  begin(caller: Caller, params: unknown): Promise<string>;
  /** The session that a request names; undefined if that is one of the upstream. */
  find(caller: Caller, req: IncomingMessage): Promise<WaitingSession | undefined>;
  open(session: WaitingSession, opened: NonNullable<WaitingSession['opened']>): Promise<void>;
};

const PREFIX = 'waiting-';
const LIFETIME_SECONDS = 7 * 86_400;
const sessionKey = (id: string) => `waiting-session:${id}`;

/** `caller` is the one without a credential: the session outlives those. */
export function waitingSessions(store: Store, ids: IdBinder): WaitingSessions {
  const save = (session: WaitingSession) =>
    store.set(sessionKey(session.id), session, LIFETIME_SECONDS);
  return {
    async begin(caller, params) {
      const id = PREFIX + randomBytes(12).toString('base64url');
      await save({ id, params });
      return ids.bind('session', caller, id);
    },
    async find(caller, { headers }) {
      const named = headers['mcp-session-id'];
      if (typeof named !== 'string') return undefined;
      const id = ids.unbind('session', caller, named);
      if (!id?.startsWith(PREFIX)) return undefined;
      return (await store.get<WaitingSession>(sessionKey(id)))?.value;
    },
    open: (session, opened) => save({ ...session, opened }),
  };
}
