// Reads the tools of an upstream as a caller sees them, before a call of a tool that no list had: servers show callers different tools.
import { membersOf } from '../../json-values.ts';
import { lruCache } from '../../lru-cache.ts';
import type { Services } from '../../services.ts';
import { isLookalike } from '../../upstreams/tool-levels.ts';
import { limitOwner } from '../authenticate.ts';
import type { AuthenticatedCall } from '../call.ts';
import { withCredential } from './person-credential.ts';
import type { Proxy } from './proxy.ts';
import { maskJson } from './quoting.ts';
import type { ToolDiscovery } from './tool-discovery.ts';
import { findCredentialOf } from './without-credential.ts';

/** Never rejects. Undefined if nothing has to be read. */
export type ReadForCaller = (
  call: Pick<AuthenticatedCall, 'caller' | 'body'>,
) => Promise<void> | undefined;

type Reader = Pick<AuthenticatedCall, 'caller'>;

/** A call waits so long for its turn and the reading. */
const MAX_WAIT_MS = 5000;
/** Those who call unknown tools all the time do not make us ask all the time. */
const INTERVAL_SECONDS = 10;
const MAX_WAITING = 20;
const MAX_KNOWN = 10_000;

/** One reading at a time. */
export function callerReadings(
  proxy: Proxy,
  discovery: ToolDiscovery,
  { logger, now }: Pick<Services, 'logger' | 'now'>,
): ReadForCaller {
  const { upstream, credentials, holds } = proxy;
  const running = new Map<string, Promise<void>>();
  const readInVain = lruCache<number>(MAX_KNOWN);
  let turn = Promise.resolve();

  async function read({ caller }: Reader, signal: AbortSignal): Promise<void> {
    const personal = await findCredentialOf(proxy, caller);
    if (personal && !('header' in personal)) return;
    const headers = {
      credentials:
        credentials && personal
          ? withCredential(upstream.headers, credentials, personal)
          : upstream.headers,
      ofCaller: await proxy.callerHeaders(caller),
    };
    const read = await discovery.listFor(headers, signal);
    const pages = personal ? maskJson(read, personal.token) : read;
    for (const [n, tools] of pages.entries()) {
      const nextCursor = n + 1 < pages.length ? n : undefined;
      await discovery.observe(tools);
      await holds.shown({ tools, nextCursor }, { caller, startsLists: n === 0 });
    }
  }

  /** Resolves at the end of the reading, or of the time for it. */
  function begin(call: Reader): Promise<void> {
    const signal = AbortSignal.timeout(MAX_WAIT_MS);
    const reading = turn
      .then(() => (signal.aborted ? undefined : read(call, signal)))
      .catch((error: unknown) =>
        logger.debug({ err: error, what: upstream.id }, 'the tools of a caller were not read'),
      );
    turn = reading;
    const end = new Promise<void>((resolve) =>
      signal.addEventListener('abort', () => resolve(), { once: true }),
    );
    return Promise.race([reading, end]);
  }

  return ({ caller, body }) => {
    const isInVain = () => namesUnknownTool(proxy, body);
    if (!isInVain()) return undefined;
    const owner = limitOwner(caller);
    const known = running.get(owner);
    if (known) return known;
    const isRecent = Math.abs(now() - (readInVain.get(owner) ?? -Infinity)) < INTERVAL_SECONDS;
    if (isRecent || running.size >= MAX_WAITING) return undefined;
    const begun = begin({ caller }).finally(() => {
      running.delete(owner);
      if (isInVain()) readInVain.set(owner, now());
    });
    running.set(owner, begun);
    return begun;
  };
}

function namesUnknownTool({ rules }: Proxy, body: unknown): boolean {
  const messages: unknown[] = Array.isArray(body) ? body : [body];
  return messages.some((message) => {
    const { method, params } = membersOf(message);
    const { name } = membersOf(params);
    if (method !== 'tools/call' || typeof name !== 'string') return false;
    const known = rules();
    // A server that answers nobody without a credential has no list until somebody asks for one, and then everything is held.
    const isRefused = known.hasCatalog === true || known.isHeld?.(name) === true;
    return isRefused && known.isListed?.(name) === false && !isLookalike(known, name);
  });
}
