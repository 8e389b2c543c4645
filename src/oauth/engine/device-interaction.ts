// Starts the interaction of a device, as the engine does after its own page for user codes.
import type Koa from 'koa';
import type Provider from 'oidc-provider';
import { DEVICE_PATH } from '../metadata.ts';
import { startOwnInteraction } from './own-interaction.ts';

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
  await startOwnInteraction(provider, ctx, {
    folder: DEVICE_PATH,
    cookie: 'resume',
    seconds: REDIRECT_SECONDS,
    payload: {
      prompt: { name: 'login', reasons: [], details: {} },
      params,
      deviceCode: deviceId,
    },
  });
}
