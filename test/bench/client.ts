// Registered clients with codes and refresh token families, obtained through sign-in and consent.
import { Agent } from 'node:http';
import { z } from 'zod';
import { openBrowser, type Person } from '../support/browser.ts';
import { registerClient } from '../support/connection.ts';
import { authorizeUrl, exchange } from '../support/oauth.ts';
import { METADATA_PATH, type Subject } from './subjects.ts';

/** A registered client whose person is signed in. */
export type BenchClient = {
  /** Keep-alive connections to the token endpoint. */
  agent: Agent;
  tokenEndpoint: string;
  clientId: string;
  resource: string;
  openCode(): Promise<Code>;
  openFamily(): Promise<Family>;
};

/** Gets a code through the pages. */
export type Code = { exchange(): Promise<Family> };

/** The current refresh token, and the first access token. */
export type Family = { refreshToken: string; accessToken: string };

/** `jwks_uri` is empty for servers whose tokens are not JWTs. */
export const serverMetadata = z.looseObject({
  issuer: z.string(),
  authorization_endpoint: z.string(),
  token_endpoint: z.string(),
  registration_endpoint: z.string(),
  revocation_endpoint: z.string(),
  jwks_uri: z.string().default(''),
});

export async function openClient(
  { issuer, origins, resource }: Pick<Subject, 'issuer' | 'origins' | 'resource'>,
  person: Person = 'ada',
): Promise<BenchClient> {
  const server = serverMetadata.parse(await (await fetch(issuer + METADATA_PATH)).json());
  const client = await registerClient(server);
  const browser = openBrowser(origins);
  const openCode = async (): Promise<Code> => {
    const parameters = { resource, scope: 'operations offline_access' };
    const { url, verifier } = authorizeUrl(server, client, parameters);
    const callback = await browser.authorize(url, { person });
    return {
      async exchange() {
        const { body } = await exchange(server, client, { callback, verifier }, { resource });
        if (!body.refresh_token) throw new Error(`${callback.search} gave ${JSON.stringify(body)}`);
        return { refreshToken: body.refresh_token, accessToken: String(body.access_token) };
      },
    };
  };
  return {
    agent: new Agent({ keepAlive: true }),
    tokenEndpoint: server.token_endpoint,
    clientId: client.id,
    resource,
    openCode,
    openFamily: async () => (await openCode()).exchange(),
  };
}
