// Sessions of apps that began before the person had connected the own account at the upstream. The app's `initialize` is kept, and sent to the
// upstream with the first request that has a credential.
import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { membersOf } from '../../json-values.ts';
import type { Store } from '../../store/store.ts';
import { type Caller, connectionOf } from '../authenticate.ts';
import { InBandError } from '../in-band-error.ts';
import type { IdBinder } from './bound-ids.ts';

export type WaitingSession = {
  id: string;
  /** Of the app's `initialize`. */
  params: unknown;
  /** The session of the upstream, for this credential. It may have none. `revision`: in place of the app's, which the upstream refuses. */
  opened?: { epoch: string; session?: string; revision?: string };
};

export type WaitingSessions = {
  /** Returns the id for the app. Rejects with an InBandError if the params are too large. Ends the oldest session of the connection if it has too many. */
  begin(caller: Caller, params: unknown): Promise<string>;
  /** The session that a request names; undefined if that is one of the upstream. */
  find(caller: Caller, req: IncomingMessage): Promise<WaitingSession | undefined>;
  open(session: WaitingSession, opened: NonNullable<WaitingSession['opened']>): Promise<void>;
};

const PREFIX = 'waiting-';
const LIFETIME_SECONDS = 7 * 86_400;
/** Of the JSON of what is kept of the params. */
const MAX_BYTES = 8192;
/** For each connection: apps begin one session, and a new one after a restart. */
const MAX_SESSIONS = 20;
const sessionKey = (id: string) => `waiting-session:${id}`;
const listKey = (caller: Caller) => `waiting-sessions:${connectionOf(caller)}`;

/** `caller` is the one without a credential: the session outlives those. */
export function waitingSessions(store: Store, ids: IdBinder): WaitingSessions {
  const save = (session: WaitingSession) =>
    store.set(sessionKey(session.id), session, LIFETIME_SECONDS);
  /** Returns the ids that have no room any more. */
  const addToList = async (caller: Caller, id: string): Promise<string[]> => {
    let dropped: string[] = [];
    await store.update<string[]>(listKey(caller), (current = []) => {
      const ids = [...current, id];
      dropped = ids.slice(0, -MAX_SESSIONS);
      return { value: ids.slice(-MAX_SESSIONS), ttl: LIFETIME_SECONDS };
    });
    return dropped;
  };
  return {
    async begin(caller, params) {
      const kept = keptOf(params);
      const id = PREFIX + randomBytes(12).toString('base64url');
      // Before the list: what drops out of it is stored, and can be deleted.
      await save({ id, params: kept });
      const dropped = await addToList(caller, id);
      await Promise.all(dropped.map((each) => store.delete(sessionKey(each))));
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

/** What the upstream needs to know of the app. Icons may be large. */
function keptOf(params: unknown): object {
  const { protocolVersion, capabilities, clientInfo } = membersOf(params);
  const { name, title, version } = membersOf(clientInfo);
  const kept = { protocolVersion, capabilities, clientInfo: { name, title, version } };
  if (Buffer.byteLength(JSON.stringify(kept)) <= MAX_BYTES) return kept;
  const message = `the capabilities and the clientInfo of initialize are larger than ${MAX_BYTES} bytes`;
  throw new InBandError(413, 'invalid_request', message);
}
