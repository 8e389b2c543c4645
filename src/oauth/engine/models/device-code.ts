import { type Adapter, type AdapterPayload, errors } from 'oidc-provider';
import { type EnginePayload, isLive } from '../../../connections/grant-record.ts';
import { findStoredGrant } from '../../../connections/grants.ts';
import {
  addDevice,
  decideDevice,
  deviceIdOf,
  findDevice,
  isWaiting,
  recordPoll,
  type WaitingDevice,
} from '../device-codes.ts';
import { engineRequest, requireContext } from '../engine-request.ts';
import { DENIED_DESCRIPTION, invalidGrant, temporarilyUnavailable } from '../errors.ts';
import { attachCode } from './code.ts';
import type { GrantModelOptions } from './options.ts';
import { limitToProof, planRedemption } from './redemption.ts';
import type { RequestGrants } from './request-grants.ts';

const DENIED = { error: 'access_denied', errorDescription: DENIED_DESCRIPTION };

/**
 * The engine's DeviceCode model (RFC 8628). Until the decision, the device has a record of its own, which `find` knows by the device code in
 * token requests and by its name elsewhere. The approval adds a code to its grant, which is then redeemed as one of an app in a browser. The
 * decision is the last write, so that the person may enter the code again if another one fails.
 */
export function deviceCodeModel(
  options: GrantModelOptions,
  records: RequestGrants,
): Partial<Adapter> {
  const { store, now } = options;
  return {
    async upsert(id, { jti: _jti, ...payload }) {
      if (requireContext().oidc.route === 'device_authorization') {
        const isNew = await addDevice(
          store,
          deviceIdOf(id),
          payload as WaitingDevice['payload'],
          now(),
        );
        if (!isNew) throw temporarilyUnavailable(new Error('the user code is taken'));
        return;
      }
      const { error, userCode: _code, params: _params, ...code } = payload;
      // Other errors do not concern the device: the person may enter its code again.
      if (error !== undefined) {
        if (error === DENIED.error) await decideDevice(store, id, 'denied', now());
        return;
      }
      const grantId = String(payload.grantId);
      await approveDevice(options, records, id, {
        ...code,
        grantId,
        // The account counts from the approval, not from when the device asked.
        iat: Math.floor(now()),
        exp: Number(payload.exp),
      });
    },
    async find(id) {
      const ctx = requireContext();
      if (ctx.oidc.route !== 'token') {
        const device = await findDevice(store, id);
        return device && { ...device.payload, jti: id, ...(device.decision ? DENIED : {}) };
      }
      const deviceId = deviceIdOf(id);
      const device = await findDevice(store, deviceId);
      if (!device) return undefined;
      const waiting = { ...device.payload, jti: id };
      // The engine rejects another client and an expired code.
      if (ctx.oidc.client?.clientId !== device.payload.clientId) return waiting;
      if (device.decision === 'denied') return { ...waiting, ...DENIED };
      if (device.decision) return approvedCode(options, records, id, waiting, device.decision);
      if (isWaiting(device, now()) && !(await recordPoll(store, deviceId, now())))
        throw new errors.SlowDown('wait five seconds longer between requests');
      return waiting;
    },
    async consume(id) {
      const decision = (await findDevice(store, deviceIdOf(id)))?.decision;
      // After a denial, `find` has returned the error that the engine responds with.
      if (decision === 'denied' || (decision && !(await records.load(decision.grantId)))) return;
      if (!decision) throw invalidGrant('the device code is unknown');
      await planRedemption(options, records, decision.grantId);
    },
  };
}

async function approveDevice(
  options: GrantModelOptions,
  records: RequestGrants,
  deviceId: string,
  code: EnginePayload & { grantId: string; exp: number },
): Promise<void> {
  const { store, now } = options;
  const { grantId } = code;
  const decide = () => decideDevice(store, deviceId, { grantId }, now());
  try {
    const { recorded } = await attachCode(options, records, code);
    await recorded;
  } catch (error) {
    // The person has denied it meanwhile, or an administrator ended the app: the device learns that from the grant.
    if (error instanceof errors.AccessDenied || engineRequest(requireContext()).refusal)
      await decide();
    throw error;
  }
  if (await decide()) return;
  await records.end(grantId, 'never_used');
  throw new errors.AccessDenied('the device code has expired or was already used');
}

/** The code in the grant of a device, or why there is none. */
async function approvedCode(
  options: GrantModelOptions,
  records: RequestGrants,
  id: string,
  waiting: AdapterPayload,
  { grantId }: { grantId: string },
): Promise<AdapterPayload | undefined> {
  const { store, now, lifetimes } = options;
  const record = (await records.load(grantId))?.value;
  if (!record) {
    // The person denied or ended the connection before the device asked again.
    const ended = await findStoredGrant(store, grantId);
    const isUnused = ended && !isLive(ended) && ended.lastUsedAt === undefined;
    return isUnused ? { ...waiting, ...DENIED } : undefined;
  }
  const { code, refresh } = limitToProof(options, requireContext(), record);
  // The approval is being written, or the grant was refreshed since the code was used.
  if (!code) return refresh ? undefined : waiting;
  const moment = now();
  const replayed = code.usedAt !== undefined && moment - code.usedAt > lifetimes.codeGrace;
  const used = { consumed: Math.floor(moment), exp: Math.floor(moment) + 1 };
  return { ...code.payload, jti: id, ...(replayed ? used : {}) };
}
