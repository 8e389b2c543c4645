import { HttpError } from '../http/errors.ts';
import type { Settings } from '../settings/settings.ts';

/** The choice in a form; empty if there is none. */
export function upstreamChoice({ upstreams }: Pick<Settings, 'upstreams'>): NamedUpstream[] {
  return upstreams.length > 1 ? upstreams.map(({ id, name }) => ({ id, name })) : [];
}

type NamedUpstream = { id: string; name: string };

/** Returns the upstream of a new record, by default the first. Throws HttpError 400 for an unknown id. */
export function requireUpstream(
  { upstreams }: Pick<Settings, 'upstreams'>,
  wanted: string | undefined,
): { upstream?: string } {
  const [first] = upstreams;
  if (wanted === undefined) return first ? { upstream: first.id } : {};
  if (upstreams.some(({ id }) => id === wanted)) return { upstream: wanted };
  const expected = first
    ? `one of ${upstreams.map(({ id }) => id).join(', ')}`
    : 'no value, because the settings have no upstream';
  throw new HttpError(400, 'invalid_request', `upstream: ${expected}`);
}
