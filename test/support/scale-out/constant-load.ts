// People at work all the time: some refresh and call again and again, some connect anew, some wait for news over a stream that stays open.
import { setTimeout as delay } from 'node:timers/promises';
import { openListening } from '../../revocation/open-streams.ts';
import { until } from '../../store/condition.ts';
import { connect, type Connection } from '../connection.ts';
import { callTool } from '../mcp.ts';
import { refresh } from '../oauth.ts';
import type { System } from '../system.ts';

export type LoadOptions = {
  /** How many of each, side by side. */
  callers: number;
  newcomers: number;
  listeners: number;
  callsPerRefresh: number;
  /** Between two rounds of one of them. */
  pauseMs: number;
  tool: string;
};

export type Done = { flows: number; refreshes: number; calls: number; streams: number };

export type ConstantLoad = {
  /** Everybody who is connected, each with the last tokens. */
  connections: readonly Connection[];
  /** What was done and answered with 200, and streams that were opened. */
  done: Readonly<Done>;
  /** What went wrong, in words. */
  wrong: readonly string[];
  /** Resolves when everybody who calls or listens went on after now. */
  goesOn(): Promise<void>;
  stop(): Promise<void>;
};

const GOES_ON_SECONDS = 60;

export async function startConstantLoad(
  system: System,
  link: { link: string },
  options: LoadOptions,
): Promise<ConstantLoad> {
  const load = openNotes();
  const open = (count: number) =>
    Promise.all(Array.from({ length: count }, () => connect(system, link)));
  const callers = await open(options.callers);
  const listeners = await open(options.listeners);
  load.connections.push(...callers, ...listeners);
  const stopped = new AbortController();
  const rounds = new Map<object, number>();
  const repeat = async (who: object, round: () => Promise<void>) => {
    while (!stopped.signal.aborted) {
      await round().catch((error: unknown) => load.wrong.push(String(error)));
      rounds.set(who, (rounds.get(who) ?? 0) + 1);
      await delay(options.pauseMs);
    }
  };
  const working = [
    ...callers.map((each) => repeat(each, () => refreshAndCall(each, options, load))),
    ...Array.from({ length: options.newcomers }, () =>
      repeat({}, async () => {
        const connection = await connect(system, link);
        load.done.flows += 1;
        await callOnce(connection, options, load);
        load.connections.push(connection);
      }),
    ),
    ...listeners.map((each) => repeat(each, () => listen(each, load, stopped.signal))),
  ];
  return {
    ...load,
    async goesOn() {
      const before = new Map(rounds);
      const wentOn = (each: object) => (rounds.get(each) ?? 0) > (before.get(each) ?? 0) + 1;
      await until('every caller goes on', () => callers.every(wentOn), GOES_ON_SECONDS);
    },
    async stop() {
      stopped.abort();
      await Promise.all(working);
    },
  };
}

type Notes = { connections: Connection[]; done: Done; wrong: string[] };

export function openNotes(): Notes {
  const done = { flows: 0, refreshes: 0, calls: 0, streams: 0 };
  return { connections: [], done, wrong: [] };
}

/** As clients do: with what came last, whatever went wrong. Says in `wrong` what was neither done nor put off. */
export async function refreshAndCall(
  connection: Connection,
  options: Pick<LoadOptions, 'callsPerRefresh' | 'tool'>,
  notes: Pick<Notes, 'done' | 'wrong'>,
): Promise<void> {
  const { server, client } = connection;
  const { status, headers, body } = await refresh(server, client, connection.refreshToken);
  if (status === 200) notes.done.refreshes += 1;
  else note(notes, `refresh: ${status} ${body.error}`, status, headers);
  connection.refreshToken = body.refresh_token ?? connection.refreshToken;
  connection.accessToken = body.access_token ?? connection.accessToken;
  for (let n = 0; n < options.callsPerRefresh; n += 1) await callOnce(connection, options, notes);
}

async function callOnce(
  { link, accessToken }: Connection,
  { tool }: Pick<LoadOptions, 'tool'>,
  notes: Pick<Notes, 'done' | 'wrong'>,
): Promise<void> {
  const { status, headers, rpc, text } = await callTool(link, accessToken, tool);
  if (status === 200 && rpc?.result && !rpc.result.isError) notes.done.calls += 1;
  else note(notes, `call: ${status} ${text}`, status, headers);
}

function note({ wrong }: Pick<Notes, 'wrong'>, what: string, status: number, headers: Headers) {
  if (status !== 503 || !headers.has('retry-after')) wrong.push(what);
}

/** One stream, to its end. */
async function listen(
  { link, accessToken }: Connection,
  { done, wrong }: Notes,
  stopped: AbortSignal,
): Promise<void> {
  const stream = await openListening(link, accessToken);
  done.streams += 1;
  while (!stream.areClosed() && !stopped.aborted) await delay(20);
  if (stopped.aborted) await stream.leave();
  else if (!stream.areEnded()) wrong.push('a stream was cut off');
}
