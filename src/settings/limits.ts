// Rate limits: their settings, their defaults, and shared networks.
import { BlockList, isIP, SocketAddress } from 'node:net';
import * as z from 'zod';
import { secondsIn, writeDuration } from './value-types.ts';

/** `count` requests in a window of `seconds`, which starts with the first request. */
export type Rate = { count: number; seconds: number };

/** `perAddress` counts one IPv4 address or one IPv6 /64 network (a /56 has four times, a /48 eight times as much), and `inAll` all addresses together. */
export type Limit = { perAddress: Rate; inAll: Rate };

const RATE = 'a rate over at most one day, such as 30/10m or 5000/1h';
const MAX_WINDOW_SECONDS = 86_400;

/** Written `<number>/<duration>`. */
export const rateText = z
  .string(RATE)
  .regex(/^[1-9]\d{0,7}\/[1-9]\d{0,4}[smhd]$/, { error: RATE, abort: true })
  .refine((text) => parseRate(text).seconds <= MAX_WINDOW_SECONDS, RATE);

export const rate = rateText.transform(parseRate).meta({ valueType: 'rate' });

/** Requires text that `rateText` accepts. */
export function parseRate(text: string): Rate {
  const [count = '', time = ''] = text.split('/');
  return { count: Number(count), seconds: secondsIn(time) };
}

/** Returns the rate as the settings write it. */
export function writeRate({ count, seconds }: Rate): string {
  return `${count}/${writeDuration(seconds)}`;
}

/** Defaults in production. */
const DEFAULTS = {
  registrations: { perAddress: '30/10m', inAll: '500/10m' },
  authorizations: { perAddress: '300/10m', inAll: '20000/10m' },
  signIns: { perAddress: '2000/10m', inAll: '100000/10m' },
  wrongSecrets: { perAddress: '20/10m', inAll: '2000/10m' },
  wrongTokens: { perAddress: '100/1m', inAll: '5000/1m' },
  userCodes: { perAddress: '5/1m', inAll: '1000/1m' },
  documents: { perAddress: '60/10m', inAll: '30/1m' },
};
const DEVELOPMENT_FACTOR = 100;
/** Guesses of user codes are as few in development. */
const FIXED: readonly LimitName[] = ['userCodes'];

type LimitName = keyof typeof DEFAULTS;

/** The defaults are not part of the schema, because they depend on production. */
function limit(name: LimitName, description: string) {
  const { perAddress, inAll } = DEFAULTS[name];
  return z
    .strictObject({
      perAddress: rate
        .optional()
        .meta({ description: 'For one address.', defaultText: `\`${perAddress}\`` }),
      inAll: rate
        .optional()
        .meta({ description: 'For all addresses together.', defaultText: `\`${inAll}\`` }),
    })
    .prefault({})
    .describe(description);
}

const NETWORK = 'a network such as 203.0.113.0/24, 2001:db8::/48 or a single address with /32';
const TOO_WIDE =
  'a network of one organization, at most an IPv4 /8 or an IPv6 /16: addresses in a shared network have no limit of their own';
const network = z
  .string(NETWORK)
  .refine(isNetwork, { error: NETWORK, abort: true })
  .refine((text) => !isTooWide(text), TOO_WIDE)
  .meta({ valueType: 'network' });

export const limitsSchema = z
  .strictObject({
    registrations: limit(
      'registrations',
      'Dynamic client registrations. Each uses 0.7 kB of the store (9 kB at most) for `lifetimes.unusedClient`. Registrations from web pages of other origins are counted separately, with a fifth of `inAll`.',
    ),
    authorizations: limit(
      'authorizations',
      'Requests that start a sign-in, and separately those of devices. Each uses 1 kB of the store (6 kB at most) for 15 minutes.',
    ),
    signIns: limit(
      'signIns',
      'Requests to the sign-in and consent pages. One sign-in makes about six.',
    ),
    wrongSecrets: limit(
      'wrongSecrets',
      'Wrong client secrets and management keys. Above `perAddress`, which counts for one known client or one address, only callers that have already authenticated are accepted.',
    ),
    wrongTokens: limit(
      'wrongTokens',
      'Invalid codes, refresh tokens and access tokens. Requests with a valid one are never limited.',
    ),
    userCodes: limit(
      'userCodes',
      'Wrong codes of devices, entered at `/device` (RFC 8628 section 5.1).',
    ),
    documents: limit(
      'documents',
      'Fetches of client metadata documents that are not cached. An unusable document counts five times for the address. `inAll` applies to each host that documents are fetched from.',
    ),
    calls: z
      .strictObject({
        perPerson: rate.optional().meta({
          description: 'For one person, with all apps together.',
          defaultText: 'none',
        }),
        perConnection: rate.optional().meta({
          description: 'For one connection of an app or a machine, and for one minted token.',
          defaultText: 'none',
        }),
      })
      .prefault({})
      .describe(
        'Calls that need a level ([limits on calls](operating.md#limits-on-calls)). A window starts with its first call, and no call beyond a limit reaches an MCP server.',
      ),
    sharedNetworks: z
      .array(network)
      .default(['160.79.104.0/21'])
      .describe(
        'Networks whose addresses many people share, such as those of hosted apps and your office. Their addresses have no `perAddress` limit and share a separate `inAll`. At most an IPv4 /8 or an IPv6 /16 each. The default is the network of Claude.',
      ),
  })
  .prefault({});

export type Limits = Record<LimitName, Limit> &
  Pick<z.output<typeof limitsSchema>, 'calls' | 'sharedNetworks'>;

export function resolveLimits(given: z.output<typeof limitsSchema>, production: boolean): Limits {
  const resolved = (name: LimitName): Limit => {
    const { perAddress, inAll } = DEFAULTS[name];
    const factor = production || FIXED.includes(name) ? 1 : DEVELOPMENT_FACTOR;
    return {
      perAddress: given[name].perAddress ?? times(parseRate(perAddress), factor),
      inAll: given[name].inAll ?? times(parseRate(inAll), factor),
    };
  };
  const names = Object.keys(DEFAULTS) as LimitName[];
  const limits = Object.fromEntries(names.map((name) => [name, resolved(name)]));
  const { calls, sharedNetworks } = given;
  return { ...(limits as Record<LimitName, Limit>), calls, sharedNetworks };
}

function times({ count, seconds }: Rate, factor: number): Rate {
  return { count: count * factor, seconds };
}

/** Requires networks in CIDR notation (RFC 4632 section 3.1). */
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

const MIN_PREFIX = { ipv4: 8, ipv6: 16 };
/** IPv4-mapped addresses are in `::ffff:0:0/96` (RFC 4291 section 2.5.5). */
const MIN_PREFIX_OF_MAPPED = 96 + MIN_PREFIX.ipv4;

function isTooWide(text: string): boolean {
  const [address = '', prefix] = text.split('/');
  if (isIP(address) === 4) return Number(prefix) < MIN_PREFIX.ipv4;
  const { address: canonical } = new SocketAddress({ address, family: 'ipv6' });
  return Number(prefix) < (canonical.startsWith('::') ? MIN_PREFIX_OF_MAPPED : MIN_PREFIX.ipv6);
}
