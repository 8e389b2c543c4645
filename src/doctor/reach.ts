// Whether Gatehouse answers at a public address, and how requests arrive there: Host and X-Forwarded-For as the proxies left them.
import { METADATA_PATH } from '../authorization-server/metadata.ts';
import { createProbe, PROBE_HEADER, PROBE_PURPOSE, type Seen } from '../http/proxy-probe.ts';
import { keyRing } from '../keys/key-ring.ts';
import { METADATA_PREFIX } from '../resource-server/metadata.ts';
import { type Answer, jsonOf, kindOf, NoAnswer } from './ask.ts';
import type { Deployment } from './deployment.ts';
import { type Finding, orOk, type Words, wordsOf } from './finding.ts';

export type Side = 'auth' | 'resource';

/** `isOpen`: requests reach Gatehouse and are answered, so that looking further makes sense. */
export type Reach = { findings: Finding[]; isOpen: boolean; answer?: Answer };

/** An address of nobody (RFC 5737): who believes that it is ours believes what clients write. */
const FORGED = '192.0.2.77';

export async function reach(deployment: Deployment, side: Side): Promise<Reach> {
  const url = side === 'auth' ? deployment.authUrl : deployment.resourceUrl;
  const words = wordsOf('reach', url);
  try {
    const answer = await deployment.ask(`${url}/livez`, { headers: probeHeaders(deployment) });
    const path = side === 'auth' ? METADATA_PATH : METADATA_PREFIX;
    const document = await deployment.ask(url + path);
    const trouble = strangerAt(words, answer, document);
    if (trouble) return { findings: [trouble], isOpen: false, answer };
    const seen = jsonOf(answer)?.seen as Seen | undefined;
    const host = hostFindings(deployment, url, document, seen);
    const isOpen = document.status !== 421;
    const ready = isOpen ? await readyFindings(deployment, url) : [];
    const forwarded = isOpen ? forwardedFindings(deployment, url, seen) : [];
    const answers = ready.length > 0 ? ready : [words.ok('Gatehouse answers there, and is ready')];
    return { findings: [...answers, ...host, ...forwarded], isOpen, answer };
  } catch (error) {
    if (!(error instanceof NoAnswer)) throw error;
    return { findings: [unreachable(words, error.message)], isOpen: false };
  }
}

function probeHeaders({ settings, now }: Deployment): Record<string, string> {
  if (!settings) return {};
  const [key] = keyRing(settings, PROBE_PURPOSE);
  return { [PROBE_HEADER]: createProbe(key, now() / 1000), 'x-forwarded-for': FORGED };
}

function unreachable(words: Words, reason: string): Finding {
  return words.problem({
    what: `nobody answers there, seen from here: ${reason}`,
    why: 'no app can sign in or call anything there',
    remedy:
      'check that the name leads to the proxy, that the proxy runs, and that no firewall is in between',
  });
}

/** A proxy that has nobody behind it, or another program. Documents count too, because `/livez` need not be public. */
function strangerAt(words: Words, health: Answer, document: Answer): Finding | undefined {
  const isOurs = typeof jsonOf(health)?.status === 'string' || jsonOf(document) !== undefined;
  if (isOurs) return undefined;
  const isGateway = document.status >= 500;
  return words.problem({
    what: isGateway
      ? `the proxy answers ${document.status} in place of Gatehouse`
      : `something else than Gatehouse answers there: ${kindOf(document)}`,
    why: 'no app can sign in or call anything there',
    remedy: isGateway
      ? 'check that Gatehouse runs, and that the proxy passes requests to where it listens (listen.auth, listen.resource)'
      : 'have the proxy pass every path of this name to Gatehouse, /.well-known/ included',
  });
}

async function readyFindings({ ask }: Deployment, url: string): Promise<Finding[]> {
  const { status } = await ask(`${url}/readyz`);
  if (status !== 503) return [];
  return [
    wordsOf('ready', url).problem({
      what: 'the process behind it runs but is not ready',
      why: 'it cannot reach its store, or is stopping: people are told to try again',
      remedy: 'see what the check of the store says, and the log of that process',
    }),
  ];
}

function hostFindings(
  { settings }: Deployment,
  url: string,
  document: Answer,
  seen?: Seen,
): Finding[] {
  const words = wordsOf('host', url);
  const { host } = new URL(url);
  if (document.status === 421 || (seen && seen.host.toLowerCase() !== host)) {
    const arrived = seen
      ? `requests for ${host} arrive with the Host ${seen.host}`
      : `requests arrive with another Host than ${host}`;
    return [
      words.problem({
        what: arrived,
        why: 'Gatehouse answers for its own names only, so everything is refused with 421',
        remedy: `have the proxy keep the Host header (nginx: proxy_set_header Host $host), and check that the settings have ${url}`,
      }),
    ];
  }
  if (seen || !settings) return [words.ok('the proxies keep the Host header')];
  return [words.ok('requests are answered under this name')];
}

function forwardedFindings({ settings }: Deployment, url: string, seen?: Seen): Finding[] {
  if (!settings) return [];
  const words = wordsOf('forwarded', url);
  if (!seen)
    return [
      words.unknown(
        'X-Forwarded-For could not be looked at: /livez is not passed on, or that process has another root secret or version',
      ),
    ];
  const { forwardedFor, proxies, address } = seen;
  const kept = forwardedFor.lastIndexOf(FORGED);
  const added = forwardedFor.length - kept - 1;
  return orOk(
    [...countFindings(words, { added, proxies, address }), ...protoFindings(words, url, seen)],
    words.ok(`${added} proxies add to X-Forwarded-For, as the setting proxies says`),
  );
}

type Counted = { added: number; proxies: number; address: string };

function countFindings(words: Words, { added, proxies, address }: Counted): Finding[] {
  if (added === proxies) return [];
  const what = `the setting proxies is ${proxies}, but ${added} added to X-Forwarded-For on the way from here`;
  if (added > proxies)
    return [
      words.problem({
        what,
        why: `everybody is taken for ${address}: all share one rate limit, and the log names nobody`,
        remedy: `set proxies to ${added}`,
      }),
    ];
  return [
    words.problem({
      what,
      why:
        address === FORGED
          ? 'anybody can choose their address by sending the header, and so escape every rate limit'
          : 'who comes past a proxy can choose an address, and so escape every rate limit',
      remedy: `set proxies to ${added}, or have each proxy add to the header (nginx: proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for)`,
    }),
  ];
}

/** Gatehouse believes its settings and not this header, which still tells of a hop without TLS. */
function protoFindings(words: Words, url: string, { forwardedProto }: Seen): Finding[] {
  const isPlain = url.startsWith('https:') && /^http(,|$)/.test(forwardedProto.replace(/\s/g, ''));
  if (!isPlain) return [];
  return [
    words.warning({
      what: 'a proxy says that the request came by plain http (X-Forwarded-Proto)',
      why: 'a hop before it does not use TLS, where tokens can be read on the way',
      remedy: 'use TLS between the proxies too, or have the inner one pass the header on',
    }),
  ];
}
