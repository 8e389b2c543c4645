import { HttpError } from '../http/errors.ts';
import type { Manager } from '../http/request-context.ts';
import type { Services } from '../services.ts';
import { includesRole, type ManagementRole } from '../settings/management-roles.ts';
import type { Settings } from '../settings/settings.ts';
import type { ApiRequest, ApiResponse, OperationName } from './api/operations.ts';

/** What the management host works with. */
export type ManagementHost = { settings: Settings; services: Services };

/** What the operations of the API and the console work with: the host, and who makes the request. */
export type ManagementContext = ManagementHost & Manager & Glance;

/**
 * At a glance, a page has the record with the id that is searched for, or what the index finds. Where both find nothing, it looks at a quarter as many
 * records as other pages. The search in everything, which reads several lists at once, reads long ones so.
 */
type Glance = { isGlance?: boolean };

/** Throws HttpError 403 (RFC 6750 section 3.1) that names the required role. */
export function requireRole({ by, role }: Manager, required: ManagementRole): void {
  if (includesRole(role, required)) return;
  const message = `this requires the role ${required}, and ${by} has the role ${role}`;
  throw new HttpError(403, 'insufficient_scope', message, {
    about: `needs_${required}`,
    headers: { 'WWW-Authenticate': `Bearer error="insufficient_scope", scope="${required}"` },
  });
}

/** As in RFC 9110 section 8.8.3. */
const ENTITY_TAGS = /(?:W\/)?"[\x21\x23-\x7E\x80-\xFF]*"/g;

/** Throws HttpError 412 unless the header `If-Match` is `*` or a list of entity tags with that of the record as it is (RFC 9110 section 13.1.1). */
export function requireMatch(ifMatch: string | undefined, etag: string): void {
  if (ifMatch === undefined || ifMatch.trim() === '*') return;
  const isList = /^[\s,]*$/.test(ifMatch.replaceAll(ENTITY_TAGS, ''));
  if (isList && ifMatch.match(ENTITY_TAGS)?.includes(etag)) return;
  const message = 'somebody changed this meanwhile: read it again, then change it';
  throw new HttpError(412, 'changed_meanwhile', message);
}

/** What the API and the console do for these operations. */
export type Handlers<Name extends OperationName> = {
  [Each in Name]: (
    management: ManagementContext,
    request: ApiRequest<Each>,
  ) => Promise<ApiResponse<Each>>;
};
