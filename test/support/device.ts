// A device without a browser (RFC 8628) that returns raw responses, and the person who enters its code.
import { z } from 'zod';
import { type Browser, type Page, type Person, requirePage } from './browser.ts';
import {
  authenticated,
  type Client,
  type Parameters,
  requestToken,
  type Server,
  type TokenResponse,
} from './oauth.ts';

export const DEVICE_CODE = 'urn:ietf:params:oauth:grant-type:device_code';

const deviceBody = z.looseObject({
  device_code: z.string().default(''),
  user_code: z.string().default(''),
  verification_uri: z.string().default(''),
  verification_uri_complete: z.string().default(''),
  expires_in: z.number().optional(),
  interval: z.number().optional(),
  error: z.string().optional(),
  error_description: z.string().optional(),
});

export type DeviceResponse = { status: number; body: z.output<typeof deviceBody> };

/** `more` are headers. */
export async function askForDevice(
  server: Server,
  client: Client,
  parameters: Parameters,
  more: Record<string, string> = {},
): Promise<DeviceResponse> {
  const { headers, body } = authenticated(client, parameters);
  const response = await fetch(String(server.device_authorization_endpoint), {
    method: 'POST',
    headers: { ...headers, ...more },
    body,
  });
  return { status: response.status, body: deviceBody.parse(await response.json()) };
}

export function poll(
  server: Server,
  client: Client,
  deviceCode: string,
  more: Parameters = {},
): Promise<TokenResponse> {
  return requestToken(server, client, {
    grant_type: DEVICE_CODE,
    device_code: deviceCode,
    ...more,
  });
}

/** Types the code at `/device` and signs in; returns the consent page, or the page shown instead. */
export async function enterCode(
  browser: Browser,
  url: string,
  code: string,
  person: Person = 'ada',
): Promise<Page> {
  const form = requirePage(await browser.visit(url));
  const next = requirePage(await browser.submit(form, { user_code: code }));
  const isSignIn = next.forms.some(({ controls }) =>
    controls.some(({ name }) => name === 'person'),
  );
  return isSignIn ? requirePage(await browser.submit(next, { person })) : next;
}
