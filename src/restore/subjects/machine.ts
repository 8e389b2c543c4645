// Machines that got another key, end earlier or open fewer tools. Those that were revoked are clients that were revoked.
import type { AuditItem } from '../../audit/audit.ts';
import { newClientSecret, secretDigest } from '../../clients/client-secrets.ts';
import {
  findMachine,
  type NamedMachine,
  replaceCredentials,
  updateMachine,
} from '../../clients/machines.ts';
import { endGrant, findGrant } from '../../connections/grants.ts';
import { HttpError } from '../../http/errors.ts';
import { changeGrant, connectMachine, reserveMachineUse } from '../../management/machines.ts';
import { isUncertain, narrowedLimits, type Subject } from './subject.ts';

const idIn = ({ clientId }: AuditItem) => clientId;

/** The old key must not work again, and the new one is lost: the machine gets one that nobody knows, on the connection that it had. */
export const machineKey: Subject = {
  idIn,
  async plan(restoring, id, items) {
    const { store, now } = restoring.services;
    const grantId = items.at(-1)?.grantId;
    const found = await findMachine(store, id);
    if (!found || grantId === undefined || found.grantId === grantId) return undefined;
    const { name, credentials: _old, ...machine } = found;
    const next = { id, name, machine: { ...machine, grantId } };
    return async () => {
      // The connection of the old key still holds its use now. Without a connector there is none to hold.
      await reserveMachineUse(restoring, next).catch((error: unknown) => {
        if (!(error instanceof HttpError)) throw error;
      });
      await endGrant(store, machine.grantId, 'key_replaced', now());
      await connectMachine(restoring, next);
      const credentials = { secretDigest: secretDigest(newClientSecret()) };
      const change = { from: { ...machine, name }, to: grantId, credentials };
      await replaceCredentials(store, id, change, now());
    };
  },
  async hint({ services: { store } }, id, items) {
    const found = await findMachine(store, id);
    return found?.grantId === items.at(-1)?.grantId && found
      ? `the machine ${found.name} (${id}) needs a new key`
      : undefined;
  },
};

export const machineChange: Subject = {
  idIn,
  async plan(restoring, id, items) {
    const { store, now } = restoring.services;
    const machine = await findMachine(store, id);
    if (!machine) return undefined;
    if (isUncertain(items)) {
      if (!(await findGrant(store, machine.grantId))) return undefined;
      return async () =>
        void (await endGrant(store, machine.grantId, 'revoked_by_administrator', now()));
    }
    const change = narrowedLimits(machine, items);
    if (!change) return undefined;
    const next = (one: NamedMachine) => ({ ...one, machine: { ...one.machine, ...change } });
    return async () => {
      const update = await updateMachine(store, id, next, now());
      if (update) await changeGrant(restoring, update.after);
    };
  },
  async hint({ services: { store } }, id, items) {
    const machine = isUncertain(items) ? await findMachine(store, id) : undefined;
    return machine
      ? `the machine ${machine.name} (${id}) was disconnected, because its change was too long for the log, or interrupted: create another`
      : undefined;
  },
};
