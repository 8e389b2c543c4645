// The engine's storage adapter: grants and their tokens in one record, clients with their own lifetime, other models as plain keys.
import type { Adapter, AdapterPayload } from 'oidc-provider';
import { lruCache } from '../../lru-cache.ts';
import { type Found, KEEP, type Next, type Store } from '../../store/store.ts';
import type { Clients } from './clients.ts';
import { mapStoreErrors } from './errors.ts';
import {
  currentRequest,
  type EngineRequest,
  finishBeforeResponse,
  readAhead,
  startReading,
} from './engine-request.ts';

const nothing = async () => undefined;

/** The engine's adapter factory, called with the name of a model. Store errors become 503 `temporarily_unavailable`. */
export function createAdapter(
  store: Store,
  grantModels: Record<string, Partial<Adapter>>,
  clients: Clients,
): (model: string) => Adapter {
  const sessions = sessionModel(store);
  const models: Record<string, Partial<Adapter>> = {
    ...grantModels,
    Client: clients.model,
    Session: joined(sessions),
    Interaction: joined(interactionModel(store, sessions)),
  };
  return (model) => {
    const own = models[model] ?? plainModel(store, model);
    const methods: Adapter = {
      upsert: nothing,
      find: nothing,
      findByUserCode: nothing,
      findByUid: nothing,
      consume: nothing,
      destroy: nothing,
      revokeByGrantId: nothing,
      ...own,
    };
    return Object.fromEntries(
      Object.entries(methods).map(([name, method]) => [name, mapStoreErrors(method)]),
    ) as unknown as Adapter;
  };
}

const interactionKey = (uid: string) => `interaction:${uid}`;
const sessionKey = (id: string) => `session:${id}`;

/** Ids and the resource that an interaction names. */
export type NamedByInteraction = {
  session?: string | undefined;
  account?: string | undefined;
  client?: string | undefined;
  resource?: string | undefined;
};

/**
 * What the interactions that this process has seen last name, so that it can be read beside the interaction at its next step. It only chooses what is
 * read: the interaction decides what counts.
 */
const namedBy = lruCache<NamedByInteraction>(1000);

/** Empty if this process has not seen the interaction. */
export const namedByInteraction = (uid: string): NamedByInteraction => namedBy.get(uid) ?? {};

function noteNames(uid: string, { session, params }: AdapterPayload): void {
  const { resource, client_id: client } = params ?? {};
  namedBy.set(uid, {
    session: session?.uid,
    account: session?.accountId,
    client: typeof client === 'string' ? client : undefined,
    resource: typeof resource === 'string' ? resource : undefined,
  });
}

/** Starts to read what the engine reads first in an authorization: the session, and the interaction that it resumes. */
export function readBrowserAhead(
  store: Store,
  request: EngineRequest,
  { session, interaction }: { session?: string | undefined; interaction?: string },
): void {
  const keys = [
    ...(session === undefined ? [] : [sessionKey(session)]),
    ...(interaction === undefined ? [] : [interactionKey(interaction)]),
  ];
  for (const key of keys) startReading(request, key, () => store.get<AdapterPayload>(key));
}

/** For models such as Interaction: one key each, with the engine's TTL in seconds. */
export function plainModel(store: Store, kind: string): Partial<Adapter> {
  const key = (id: string) => `${kind.toLowerCase()}:${id}`;
  return {
    upsert: (id, payload, expiresIn = Infinity) =>
      store.set<AdapterPayload>(key(id), payload, expiresIn),
    find: async (id) => {
      const read = () => store.get<AdapterPayload>(key(id));
      return (await readAhead(key(id), read))?.value;
    },
    destroy: (id) => store.delete(key(id)),
  };
}

/**
 * Stores what an interaction resulted in, merged with the results of its earlier steps. False if it has ended. An approval does not replace an
 * error, which is a denial. The engine's `interactionResult` reads interaction and session again, and restores an interaction that another request has
 * just ended.
 */
export async function saveInteractionResult(
  store: Store,
  uid: string,
  result: object,
): Promise<boolean> {
  const withResult = (current: AdapterPayload | undefined): Next<AdapterPayload> => {
    if (!current) return KEEP;
    if ('consent' in result && current.result?.error !== undefined) return KEEP;
    const merged = 'error' in result ? result : { ...current.lastSubmission, ...result };
    return { value: { ...current, result: merged }, ttl: Number(current.exp) - Date.now() / 1000 };
  };
  const seen = lastRead.get(uid);
  lastRead.delete(uid);
  return (await store.update(interactionKey(uid), withResult, seen)) !== undefined;
}

const MAX_LAST_READ = 500;
/** Interactions as pages have read them. Their stored bytes save the next step a read, and show it whether another one was faster. */
const lastRead = lruCache<Found<AdapterPayload>>(MAX_LAST_READ);

/** On pages, the engine reads the session of an interaction next, in the same turn of the event loop. */
function interactionModel(store: Store, sessions: SessionModel): Partial<Adapter> {
  const interactions = plainModel(store, 'Interaction');
  return {
    ...interactions,
    async upsert(uid, payload, expiresIn) {
      noteNames(uid, payload);
      await interactions.upsert?.(uid, payload, expiresIn);
    },
    async find(uid) {
      const key = interactionKey(uid);
      const isOfPage = !currentRequest();
      const guess = isOfPage ? namedBy.get(uid)?.session : undefined;
      const forget = guess === undefined ? undefined : sessions.readAhead(guess);
      const found = await readAhead(key, () => store.get<AdapterPayload>(key)).finally(() => {
        if (forget) setImmediate(forget);
      });
      if (!found || !isOfPage) return found?.value;
      lastRead.set(uid, found);
      noteNames(uid, found.value);
      // Another request may have begun to read it before this one.
      const named = found.value.session?.uid;
      if (named !== undefined && named !== guess) sessions.forget(named);
      return found.value;
    },
  };
}

/** The engine awaits each write of sessions and interactions, and reads none of them again. */
function joined({ upsert, destroy, ...reads }: Partial<Adapter>): Partial<Adapter> {
  return {
    ...reads,
    upsert: async (...args) => finishBeforeResponse(upsert?.(...args)),
    destroy: async (...args) => finishBeforeResponse(destroy?.(...args)),
  };
}

const MAX_LAST_IDS = 1000;

type SessionModel = Partial<Adapter> & {
  /** Starts a read for the next `findByUid`. Returns the function that forgets it. */
  readAhead(uid: string): () => void;
  forget(uid: string): void;
};

/**
 * The cookie has a session id that changes; an interaction keeps the session's uid, which resolves to the current id. The engine's list of the
 * session's clients is not stored: it grows with every connected app, and we do not use what it is for, logout that is initiated by clients.
 */
function sessionModel(store: Store): SessionModel {
  const sessions = plainModel(store, 'session');
  const uidKey = (uid: string) => `session-uid:${uid}`;
  /** The ids that this process has seen last. Another process may have changed them. */
  const lastIds = lruCache<string>(MAX_LAST_IDS);
  /** By uid. Each began with the request that uses it, or with a later one. */
  const ahead = new Map<string, Promise<AdapterPayload | undefined>>();
  const findByUid = async (uid: string): Promise<AdapterPayload | undefined> => {
    const lastId = lastIds.get(uid);
    const [found, session] = await Promise.all([
      store.get<string>(uidKey(uid)),
      lastId === undefined ? undefined : sessions.find?.(lastId),
    ]);
    const id = found?.value;
    if (id === undefined || id === lastId) return (id && session) || undefined;
    lastIds.set(uid, id);
    return (await sessions.find?.(id)) || undefined;
  };
  return {
    ...sessions,
    async find(id) {
      const payload = await sessions.find?.(id);
      const request = currentRequest();
      if (payload && request) request.session = { id, payload };
      return payload || undefined;
    },
    async upsert(id, { authorizations: _clients, ...payload }, expiresIn = Infinity) {
      if (isUnchanged(id, payload)) return;
      if (payload.uid) lastIds.set(payload.uid, id);
      await Promise.all([
        sessions.upsert?.(id, payload, expiresIn),
        payload.uid && store.set(uidKey(payload.uid), id, expiresIn),
      ]);
    },
    findByUid(uid) {
      const reading = ahead.get(uid);
      ahead.delete(uid);
      return reading ?? findByUid(uid);
    },
    readAhead(uid) {
      const reading = findByUid(uid);
      reading.catch(() => undefined);
      ahead.set(uid, reading);
      return () => {
        if (ahead.get(uid) === reading) ahead.delete(uid);
      };
    },
    forget: (uid) => void ahead.delete(uid),
  };
}

/** An interaction that begins now must find the session until it ends. */
const MIN_SECONDS_LEFT = 1000;

/**
 * Whether the request has read this session, nothing in it has changed, and it does not expire soon. The engine saves it anyway, to extend its
 * lifetime, but a session lasts a fixed time from the sign-in.
 */
function isUnchanged(id: string, payload: AdapterPayload): boolean {
  const found = currentRequest()?.session;
  if (found?.id !== id) return false;
  const left = Number(found.payload.exp) - Date.now() / 1000;
  return left > MIN_SECONDS_LEFT && contentOf(found.payload) === contentOf(payload);
}

function contentOf({ iat: _iat, exp: _exp, ...content }: AdapterPayload): string {
  return JSON.stringify(
    Object.entries(content).toSorted(([one], [other]) => (one < other ? -1 : 1)),
  );
}
