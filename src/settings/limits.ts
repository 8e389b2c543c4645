// How often something may happen before we say "try again later": what can be set, and what holds where nothing is.
import { BlockList, isIP, SocketAddress } from 'node:net';
import { z } from 'zod';
import { secondsIn } from './value-types.ts';

/** So many in so many seconds, counted from the first. */
export type Rate = { count: number; seconds: number };

/** Of one address (an IPv4 address, or a /64 network of IPv6), and of all together. */
export type Limit = { perAddress: Rate; inAll: Rate };

const RATE = 'so many in a time of at most a day, such as 30/10m or 5000/1h';
const DAY = 86_400;

/** Written `<number>/<duration>`. */
const rate = z
  .string(RATE)
  .regex(/^[1-9]\d{0,7}\/[1-9]\d{0,4}[smhd]$/, { error: RATE, abort: true })
  .transform((text): Rate => {
    const [count = '', time = ''] = text.split('/');
    return { count: Number(count), seconds: secondsIn(time) };
  })
  .refine(({ seconds }) => seconds <= DAY, RATE);

const limit = z.strictObject({ perAddress: rate.optional(), inAll: rate.optional() }).prefault({});

const NETWORK = 'a network such as 203.0.113.0/24, 2001:db8::/48 or a single address with /32';
const TOO_WIDE =
  'a network of one organization, at most a /8 of IPv4 or a /16 of IPv6: nobody in a shared network has a limit of its own';
const network = z
  .string(NETWORK)
  .refine(isNetwork, { error: NETWORK, abort: true })
  .refine((text) => !isTooWide(text), TOO_WIDE);

export const limits = z
  .strictObject({
    registrations: limit,
    authorizations: limit,
    signIns: limit,
    wrongSecrets: limit,
    wrongTokens: limit,
    documents: limit,
    sharedNetworks: z.array(network).default(['160.79.104.0/21']),
  })
  .prefault({});

const MINUTE = 60;

/** Of production: in development they are a hundred times as high. */
const DEFAULTS = {
  registrations: limitOf([30, 10 * MINUTE], [500, 10 * MINUTE]),
  authorizations: limitOf([300, 10 * MINUTE], [20_000, 10 * MINUTE]),
  signIns: limitOf([2000, 10 * MINUTE], [100_000, 10 * MINUTE]),
  wrongSecrets: limitOf([20, 10 * MINUTE], [2000, 10 * MINUTE]),
  wrongTokens: limitOf([100, MINUTE], [5000, MINUTE]),
  documents: limitOf([60, 10 * MINUTE], [30, MINUTE]),
};
const IN_DEVELOPMENT = 100;

export type Limits = Record<keyof typeof DEFAULTS, Limit> & { sharedNetworks: string[] };

/** What is set holds as it is; the rest depends on where we are. */
export function resolveLimits(given: z.output<typeof limits>, production: boolean): Limits {
  const factor = production ? 1 : IN_DEVELOPMENT;
  const resolved = (name: keyof typeof DEFAULTS): Limit => {
    const { perAddress, inAll } = DEFAULTS[name];
    return {
      perAddress: given[name].perAddress ?? times(perAddress, factor),
      inAll: given[name].inAll ?? times(inAll, factor),
    };
  };
  return {
    registrations: resolved('registrations'),
    authorizations: resolved('authorizations'),
    signIns: resolved('signIns'),
    wrongSecrets: resolved('wrongSecrets'),
    wrongTokens: resolved('wrongTokens'),
    documents: resolved('documents'),
    sharedNetworks: given.sharedNetworks,
  };
}

function limitOf(perAddress: [number, number], inAll: [number, number]): Limit {
  const rateOf = ([count, seconds]: [number, number]) => ({ count, seconds });
  return { perAddress: rateOf(perAddress), inAll: rateOf(inAll) };
}

function times({ count, seconds }: Rate, factor: number): Rate {
  return { count: count * factor, seconds };
}

/** All addresses in the networks, each written as address and prefix length (RFC 4632 section 3.1). */
export function networkList(networks: readonly string[]): BlockList {
  const list = new BlockList();
  for (const written of networks) {
    const [address = '', prefix] = written.split('/');
    list.addSubnet(address, Number(prefix), isIP(address) === 4 ? 'ipv4' : 'ipv6');
  }
  return list;
}

function isNetwork(text: string): boolean {
  if (!/^[0-9a-f.:]+\/\d{1,3}$/i.test(text)) return false;
  const [address = '', prefix] = text.split('/');
  const family = isIP(address);
  return family !== 0 && Number(prefix) <= (family === 4 ? 32 : 128);
}

const WIDEST = { ipv4: 8, ipv6: 16 };
/** All of IPv4 is in `::ffff:0:0/96` (RFC 4291 section 2.5.5). */
const WIDEST_OF_ZEROS = 96 + WIDEST.ipv4;

function isTooWide(text: string): boolean {
  const [address = '', prefix] = text.split('/');
  if (isIP(address) === 4) return Number(prefix) < WIDEST.ipv4;
  const { address: canonical } = new SocketAddress({ address, family: 'ipv6' });
  return Number(prefix) < (canonical.startsWith('::') ? WIDEST_OF_ZEROS : WIDEST.ipv6);
}
