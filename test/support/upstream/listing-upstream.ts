// An upstream MCP server without sessions that lists exactly the tools that a test gives it, also ones that no SDK would send.
import type { JWTPayload } from 'jose';
import { membersOf } from '../../../src/json-values.ts';
import { json, resultFor } from './scripted-upstream.ts';
import { startUpstream, type Upstream } from './upstream-server.ts';

export type ListedTools = readonly object[];

/** A cursor is the number of a page. With `repeats`, the last one leads to the first; the page `fails` is answered with an error. */
export type Pages = { pages: readonly ListedTools[]; repeats?: true; fails?: number };

export type ListingUpstream = Upstream & {
  /** From now on, lists these to everybody, or what a function returns for a caller. */
  list(tools: ListedTools | ((caller: JWTPayload) => ListedTools | Pages)): void;
  /** Sends these to everybody, or what a function returns for a caller. */
  instruct(instructions: string | undefined): void;
  /** The capabilities that the server states from now on. */
  state(capabilities: object): void;
  /** The arguments of the calls that arrived, as JSON. */
  arrived: () => string[];
};

/** Every tool answers its own name. */
export async function startListingUpstream(
  first: ListedTools = [],
  instructions?: string,
): Promise<ListingUpstream> {
  let toolsFor: (caller: JWTPayload) => ListedTools | Pages = () => first;
  let said = instructions;
  let states = { tools: { listChanged: true } } as object;
  const upstream = await startUpstream(() => (_req, res, body, caller) => {
    const { id, method, params } = membersOf(body);
    if (id === undefined) return res.writeHead(202).end();
    const respond = (result: object) => json(res, resultFor({ id }, result));
    const respondWithError = (code: number) =>
      json(res, { jsonrpc: '2.0', id, error: { code, message: 'refused' } });
    switch (method) {
      case 'initialize':
        return respond({
          protocolVersion: '2025-11-25',
          capabilities: states,
          serverInfo: { name: 'listing', version: '1.0.0' },
          ...(said === undefined ? {} : { instructions: said }),
        });
      case 'tools/list': {
        const [listed, place] = [toolsFor(caller), Number(membersOf(params)['cursor'] ?? 0)];
        const isFailing = 'pages' in listed && listed.fails === place;
        return isFailing ? respondWithError(-32_603) : respond(pageOf(listed, place));
      }
      case 'tools/call':
        return respond({ content: [{ type: 'text', text: String(membersOf(params)['name']) }] });
      default:
        return respondWithError(-32_601);
    }
  });
  return {
    ...upstream,
    list(tools) {
      toolsFor = typeof tools === 'function' ? tools : () => tools;
    },
    instruct: (text) => void (said = text),
    state: (capabilities) => void (states = capabilities),
    arrived: () =>
      upstream.received
        .map(({ body }) => membersOf(body))
        .filter(({ method }) => method === 'tools/call')
        .map(({ params }) => JSON.stringify(membersOf(params)['arguments'])),
  };
}

function pageOf(listed: ListedTools | Pages, place: number): object {
  if (!('pages' in listed)) return { tools: listed };
  const hasNext = place + 1 < listed.pages.length;
  return {
    tools: listed.pages[place] ?? [],
    ...(hasNext ? { nextCursor: String(place + 1) } : {}),
    ...(!hasNext && listed.repeats ? { nextCursor: '0' } : {}),
  };
}

/** A tool as servers list it. */
export function tool(name: string, more: object = {}): { name: string } {
  const listed = { name, description: `The tool ${name}`, inputSchema: { type: 'object' } };
  return { ...listed, ...more };
}
