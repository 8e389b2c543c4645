// Starts the interaction of a device, as the engine does after its own page for user codes.
import { randomBytes } from 'node:crypto';
import type Koa from 'koa';
import type Provider from 'oidc-provider';
import { seeOther } from '../../http/see-other.ts';
import { DEVICE_PATH } from '../metadata.ts';
import { COOKIE } from './configuration.ts';

/** The time until the redirect below. The engine then starts an interaction of its own. */
const REDIRECT_SECONDS = 60;

/**
 * Redirects to the engine's resume endpoint of a new interaction without a result, so that the engine asks for sign-in and consent.
 * Test: flows/device-grant.test.ts.
 */
export async function startDeviceInteraction(
  provider: Provider,
  ctx: Koa.Context,
  deviceId: string,
  params: Record<string, string | undefined>,
): Promise<void> {
  const uid = randomBytes(16).toString('base64url');
  const path = `${DEVICE_PATH}/${uid}`;
  const Interaction = provider.Interaction as unknown as new (
    id: string,
    payload: object,
  ) => InstanceType<Provider['Interaction']>;
  const interaction = new Interaction(uid, {
    returnTo: provider.issuer + path,
    prompt: { name: 'login', reasons: [], details: {} },
    params,
    deviceCode: deviceId,
    cid: uid,
  });
  await interaction.save(REDIRECT_SECONDS);
  ctx.cookies.set(provider.cookieName('resume'), uid, {
    ...COOKIE,
    path,
    maxAge: REDIRECT_SECONDS * 1000,
  });
  seeOther(ctx, path);
}
