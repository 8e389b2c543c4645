// Sends the requests of anonymous-flood.ts.
import { Agent, request } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import type { Flood, Statuses } from './anonymous-flood.ts';
import { REDIRECT_URI } from './connection.ts';

const ADDRESSES = 1000;
const CONCURRENCY = 8;
const PAUSE_SECONDS = 0.05;

const REGISTRATION = JSON.stringify({
  client_name: 'Nobody uses this',
  redirect_uris: [REDIRECT_URI, 'http://localhost:7070/callback'],
  token_endpoint_auth_method: 'none',
});

/** `onFirst` is called at the first response. */
export async function sendFlood(wanted: Flood, onFirst: () => void): Promise<Statuses> {
  const agent = new Agent({ keepAlive: true, maxSockets: CONCURRENCY });
  const { authorizations, registrations } = wanted;
  const url = new URL(wanted.authorizeUrl);
  const every = Math.ceil((authorizations + registrations) / Math.max(1, registrations));
  const found: Statuses = {};
  const began = performance.now();
  let sent = 0;
  const sendAll = async () => {
    while (sent < authorizations + registrations) {
      const number = sent++;
      const isRegistration = number % every === every - 1;
      const status = await send(agent, url, addressOf(number), isRegistration);
      if (Object.keys(found).length === 0) onFirst();
      found[status] = (found[status] ?? 0) + 1;
      while (sent / wanted.requestsPerSecond > (performance.now() - began) / 1000)
        await delay(PAUSE_SECONDS * 1000);
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, sendAll));
  agent.destroy();
  return found;
}

function addressOf(number: number): string {
  const host = number % ADDRESSES;
  return `10.1.${Math.floor(host / 250)}.${host % 250}`;
}

/** Sends the request with the forwarding header of a proxy. */
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
