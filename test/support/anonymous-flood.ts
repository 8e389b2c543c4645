// Anonymous requests from a thousand addresses: authorizations that nobody finishes and registrations that nobody uses.
import { Agent, request } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { REDIRECT_URI } from './connection.ts';

export type Flood = {
  authorizations: number;
  registrations: number;
  /** Of any client that is registered. */
  authorizeUrl: URL;
  /** Requests in a second, at most. */
  pace: number;
};

const ADDRESSES = 1000;
const AT_ONCE = 8;
const SLICE_SECONDS = 0.05;

const REGISTRATION = JSON.stringify({
  client_name: 'Nobody uses this',
  redirect_uris: [REDIRECT_URI, 'http://localhost:7070/callback'],
  token_endpoint_auth_method: 'none',
});

/** How many answers there were of each status. */
export async function flood(wanted: Flood): Promise<Record<number, number>> {
  const agent = new Agent({ keepAlive: true, maxSockets: AT_ONCE });
  const { authorizations, registrations, authorizeUrl: url } = wanted;
  const every = Math.ceil((authorizations + registrations) / Math.max(1, registrations));
  const found: Record<number, number> = {};
  const began = performance.now();
  let sent = 0;
  const sendAll = async () => {
    while (sent < authorizations + registrations) {
      const number = sent++;
      const isRegistration = number % every === every - 1;
      const status = await send(agent, url, addressOf(number), isRegistration);
      found[status] = (found[status] ?? 0) + 1;
      while (sent / wanted.pace > (performance.now() - began) / 1000)
        await delay(SLICE_SECONDS * 1000);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, sendAll));
  agent.destroy();
  return found;
}

function addressOf(number: number): string {
  const host = number % ADDRESSES;
  return `10.1.${Math.floor(host / 250)}.${host % 250}`;
}

/** As a proxy would pass it on. */
function send(agent: Agent, url: URL, address: string, isRegistration: boolean): Promise<number> {
  const from = { 'x-forwarded-for': address };
  const options = isRegistration
    ? {
        path: '/oauth/register',
        method: 'POST',
        headers: {
          ...from,
          'content-type': 'application/json',
          'content-length': REGISTRATION.length,
        },
      }
    : { path: url.pathname + url.search, headers: from };
  return new Promise((resolve, reject) => {
    const sent = request({ agent, host: url.hostname, port: url.port, ...options }, (response) => {
      response.resume().on('end', () => resolve(response.statusCode ?? 0));
    });
    sent.on('error', reject).end(isRegistration ? REGISTRATION : undefined);
  });
}
