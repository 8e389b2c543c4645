// Refresh load: each connection refreshes the next family (RFC 6749 section 6) as soon as it has the last response.
import { type Agent, request } from 'node:http';
import { text } from 'node:stream/consumers';
import type { Family, BenchClient } from './client.ts';

/** `failures` has a line for every response that was not 200 with a new refresh token. */
export type Load = { refreshes: number; seconds: number; failures: string[] };

/**
 * Starts refreshes while `mayStart(started so far)`, and waits for all responses: a lost one would make the next round a replay.
 * Takes families from the front of `idle` and returns them to the end; failed families are not returned.
 */
export async function refreshWhile(
  client: BenchClient,
  idle: Family[],
  concurrency: number,
  mayStart: (started: number) => boolean,
): Promise<Load> {
  const failures: string[] = [];
  let started = 0;
  const connection = async () => {
    while (mayStart(started)) {
      const family = idle.shift();
      if (!family) return;
      started += 1;
      const failure = await refresh(client, family);
      if (failure === undefined) idle.push(family);
      else failures.push(failure);
    }
  };
  const begun = performance.now();
  await Promise.all(Array.from({ length: concurrency }, connection));
  const seconds = (performance.now() - begun) / 1000;
  return { refreshes: started - failures.length, seconds, failures };
}

/** A condition for `refreshWhile`. */
export function forSeconds(seconds: number): () => boolean {
  const end = performance.now() + seconds * 1000;
  return () => performance.now() < end;
}

/** A condition that holds so many times. */
export function forCalls(calls: number): () => boolean {
  let left = calls;
  return () => (left -= 1) >= 0;
}

/** Describes the failures, if there are any. */
export async function refresh(
  {
    agent,
    tokenEndpoint,
    clientId,
    resource,
  }: Pick<BenchClient, 'agent' | 'tokenEndpoint' | 'clientId' | 'resource'>,
  family: Family,
): Promise<string | undefined> {
  const form = new URLSearchParams({
    grant_type: 'refresh_token',
    client_id: clientId,
    refresh_token: family.refreshToken,
    resource,
  });
  try {
    const { status, body } = await post(agent, tokenEndpoint, form.toString());
    const { refresh_token: next, access_token: access }: Record<string, unknown> =
      status === 200 ? JSON.parse(body) : {};
    if (typeof next !== 'string' || next === family.refreshToken) return `${status} ${body}`;
    family.refreshToken = next;
    family.accessToken = String(access);
    return undefined;
  } catch (error) {
    return String(error);
  }
}

function post(agent: Agent, url: string, body: string): Promise<{ status?: number; body: string }> {
  return new Promise((resolve, reject) => {
    const headers = {
      'content-type': 'application/x-www-form-urlencoded',
      'content-length': Buffer.byteLength(body),
    };
    const sent = request(url, { method: 'POST', agent, headers }, (response) => {
      text(response).then((reply) => resolve({ status: response.statusCode, body: reply }), reject);
    });
    sent.once('error', reject);
    sent.end(body);
  });
}
