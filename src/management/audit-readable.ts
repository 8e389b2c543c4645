// What of an item of the audit log a role may read.
import type { AuditItem } from '../audit/audit.ts';
import { isObject } from '../json-values.ts';
import { includesRole, type ManagementRole } from '../settings/management-roles.ts';

/** The role that reads everything in the audit log. */
export const AUDITOR: ManagementRole = 'auditor';

/** Without what only auditors read. */
export function readableBy(role: ManagementRole, item: AuditItem): AuditItem {
  if (includesRole(role, AUDITOR)) return item;
  const { address: _address, userAgent: _userAgent, argumentsJson: _json, ...rest } = item;
  // The network of a device is an address.
  if (item.event === 'consent_approved' && isObject(rest.arguments)) {
    const { network: _network, ...others } = rest.arguments;
    return { ...rest, arguments: others };
  }
  // A receiver may repeat the item that it refuses.
  if (item.event !== 'call' && item.event !== 'delivery_rejected') return rest;
  const { arguments: _arguments, ...call } = rest;
  return call;
}
