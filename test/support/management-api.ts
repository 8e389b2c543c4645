// A client of the management API.
import { z } from 'zod';
import type { Level } from '../../src/permission-levels.ts';
import type { System } from './system.ts';
import { until } from './until.ts';

const connector = z.looseObject({
  id: z.string(),
  name: z.string(),
  level: z.string(),
  link: z.string(),
  upstream: z.string().optional(),
  state: z.string(),
  uses: z.number(),
});

const auditItem = z.looseObject({
  time: z.string(),
  event: z.string(),
  outcome: z.string(),
  account: z.string().optional(),
  clientId: z.string().optional(),
  connector: z.string().optional(),
  grantId: z.string().optional(),
  tool: z.string().optional(),
  argumentsJson: z.string().optional(),
});

export type Connector = z.output<typeof connector>;
export type AuditItem = z.output<typeof auditItem>;

/** `expiresAt` is ISO 8601. */
export type ConnectorOptions = {
  name?: string;
  level?: Level;
  suggestedLevel?: Level;
  upstream?: string;
  audience?: Record<string, string>[];
  tools?: string[];
  maxUses?: number;
  calls?: string;
  expiresAt?: string;
};

export async function createConnector(
  system: System,
  wanted: ConnectorOptions = {},
): Promise<Connector> {
  const body = { name: 'Club figures', level: 'operations', ...wanted };
  return connector.parse(await requestManagement(system, 'POST', '/connectors', body));
}

export async function showConnector(system: System, id: string): Promise<Connector> {
  return connector.parse(await requestManagement(system, 'GET', `/connectors/${id}`));
}

export async function revokeConnector(system: System, id: string): Promise<void> {
  await requestManagement(system, 'DELETE', `/connectors/${id}`);
}

/** The connector must be revoked or expired. */
export async function deleteConnector(system: System, id: string): Promise<void> {
  await requestManagement(system, 'POST', `/connectors/${id}/delete`);
}

export async function changeAccount(
  system: System,
  id: string,
  change: 'disable' | 'enable' | 'forget',
): Promise<void> {
  await requestManagement(system, 'POST', `/accounts/${id}/${change}`);
}

const grant = z.looseObject({
  id: z.string(),
  state: z.string(),
  reason: z.string().optional(),
  explanation: z.string().optional(),
  level: z.string().optional(),
  endedAt: z.string().optional(),
  refusals: z.array(z.looseObject({ time: z.string(), reason: z.string() })),
});

export type Grant = z.output<typeof grant>;

export async function showGrant(system: System, id: string): Promise<Grant> {
  return grant.parse(await requestManagement(system, 'GET', `/grants/${id}`));
}

/** Returns the first page. */
export async function listGrants(system: System, query: Record<string, string>) {
  const page = z.object({ items: z.array(grant), next: z.string().optional() });
  return page.parse(
    await requestManagement(system, 'GET', `/grants?${new URLSearchParams(query)}`),
  );
}

/** Oldest first, at most a thousand. Leaves out calls without arguments, which are stored a second later. */
export async function readAudit(system: System): Promise<AuditItem[]> {
  return (await readAllAudit(system)).filter(
    (item) => item.event !== 'call' || 'argumentsJson' in item || 'arguments' in item,
  );
}

/** Oldest first, at most a thousand, without the items about reading them. */
export async function readAllAudit(system: System): Promise<AuditItem[]> {
  const page = z.object({ items: z.array(auditItem) });
  const found = page.parse(await requestManagement(system, 'GET', '/audit?limit=1000'));
  return found.items.filter(({ event }) => event !== 'audit_read').toReversed();
}

/** Sends a request to the management API. Throws if it is refused. */
export async function requestManagement(
  system: Pick<System, 'management' | 'managementKey'>,
  method: string,
  path: string,
  body?: object,
): Promise<unknown> {
  const response = await fetch(`${system.management}/api/v1${path}`, {
    method,
    headers: {
      authorization: `Bearer ${system.managementKey}`,
      ...(body ? { 'content-type': 'application/json' } : {}),
    },
    ...(body ? { body: JSON.stringify(body) } : {}),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  return text === '' ? undefined : JSON.parse(text);
}

/** Reloads the settings as soon as no other reload is in progress, such as the one of a signal. */
export function reloadSettings(system: Pick<System, 'management' | 'managementKey'>) {
  return until('other reloads to end', async () => {
    try {
      await requestManagement(system, 'POST', '/settings/reload');
      return true;
    } catch (error) {
      if (String(error).includes('reload_in_progress')) return false;
      throw error;
    }
  });
}
