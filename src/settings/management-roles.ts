/**
 * The roles of people and keys in management, the lowest first. Each includes those before it, so that somebody with several of them has what the
 * highest may do. An auditor only reads, but all of the audit log.
 */
export const MANAGEMENT_ROLES = ['viewer', 'auditor', 'operator', 'administrator'] as const;

/** The name of the key in the data directory, which has the role administrator. */
export const DEFAULT_KEY = 'default';

export type ManagementRole = (typeof MANAGEMENT_ROLES)[number];

/** Whether a role may do what `required` may do. */
export function includesRole(role: ManagementRole, required: ManagementRole): boolean {
  return MANAGEMENT_ROLES.indexOf(role) >= MANAGEMENT_ROLES.indexOf(required);
}

/** Returns undefined for an empty list. */
export function highestRole(roles: readonly ManagementRole[]): ManagementRole | undefined {
  return MANAGEMENT_ROLES.findLast((role) => roles.includes(role));
}
