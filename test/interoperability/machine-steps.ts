// Machines: clients that an administrator creates, and that connect without a person.
import { expect } from 'chai';
import { exportJWK, exportPKCS8, generateKeyPair } from 'jose';
import { createConnector, requestManagement } from '../support/management-api.ts';
import type { System } from '../support/system.ts';

export type Machine = { id: string; secret: string; link: string };
export type KeyedMachine = { id: string; link: string; privateKey: string; algorithm: 'ES256' };

/** `key` has `jwks` or `jwksUri`; without them, the machine has a secret. `existing` is the id of a connector. */
export async function createMachineWith(
  system: System,
  key: object,
  existing?: string,
): Promise<Machine> {
  const connector = existing ?? (await createConnector(system, { level: 'operations' })).id;
  const body = { name: 'Nightly job', connector, level: 'operations', ...key };
  return (await requestManagement(system, 'POST', '/clients', body)) as Machine;
}

/** `connector` is the id of an existing one. */
export function createMachine(system: System, connector?: string): Promise<Machine> {
  return createMachineWith(system, {}, connector);
}

/** `privateKey` is PKCS #8 in PEM. */
export async function createKeyedMachine(system: System): Promise<KeyedMachine> {
  const { privateKey, publicKey } = await generateKeyPair('ES256', { extractable: true });
  const jwks = { keys: [await exportJWK(publicKey)] };
  const { id, link } = await createMachineWith(system, { jwks });
  return { id, link, privateKey: await exportPKCS8(privateKey), algorithm: 'ES256' };
}

/** The client of an SDK, which the caller closes. */
type McpClient = {
  callTool: (call: { name: string; arguments: Record<string, unknown> }) => Promise<unknown>;
  close: () => Promise<void>;
};

/** Calls a tool as the machine, which needs a token for it. */
export async function expectCall(client: McpClient): Promise<void> {
  try {
    const result = await client.callTool({ name: 'club_overview', arguments: {} });
    expect(result).to.have.property('structuredContent').that.has.property('members');
  } finally {
    await client.close();
  }
}
