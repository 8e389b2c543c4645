// What kind of Redis a server is, and how it keeps data, because advice for one's own Redis does not fit a managed service.

/** The fields of INFO. */
export type Info = Readonly<Record<string, string>>;

export type RedisService = {
  name: string;
  /** How to keep writes over a crash. `isDurable`: it does without anything to set. */
  persistence: { isDurable: true } | { isDurable: false; remedy: string };
};

type KnownService = RedisService & { hosts?: RegExp; info?: (info: Info) => boolean };

const SERVICES: readonly KnownService[] = [
  {
    name: 'Amazon MemoryDB',
    hosts: /\.memorydb\.[\w-]+\.amazonaws\.com(\.cn)?$/,
    persistence: { isDurable: true },
  },
  {
    name: 'Amazon ElastiCache',
    hosts: /\.cache\.amazonaws\.com(\.cn)?$/,
    info: ({ os = '' }) => os.includes('ElastiCache'),
    persistence: {
      isDurable: false,
      remedy:
        'it has no append-only file: create at least one replica in another zone, with automatic failover (Multi-AZ), and backups; or use Amazon MemoryDB, which keeps every write',
    },
  },
  {
    name: 'Azure Managed Redis',
    hosts: /\.redis\.azure\.net$|\.redis(enterprise)?\.cache\.(windows\.net|azure\.net)$/,
    persistence: {
      isDurable: false,
      remedy: 'turn data persistence on in the Azure portal, with AOF, and high availability',
    },
  },
  {
    name: 'Redis Cloud or Redis Enterprise',
    hosts: /\.(redislabs|redis-cloud|rlrcp)\.com$/,
    info: (info) => Object.keys(info).some((field) => /^(rlec|redis_enterprise)_/.test(field)),
    persistence: {
      isDurable: false,
      remedy:
        'set the data persistence of the database to append-only file, every write or every second, and turn replication on',
    },
  },
  {
    name: 'Upstash',
    hosts: /\.upstash\.io$/,
    info: (info) => 'upstash_version' in info,
    persistence: { isDurable: true },
  },
  {
    name: 'Dragonfly',
    info: (info) => 'dragonfly_version' in info,
    persistence: {
      isDurable: false,
      remedy:
        'it has no append-only file: start it with --snapshot_cron, and with a replica; or use Redis or Valkey',
    },
  },
];

/** Undefined for one's own Redis, Valkey or KeyDB, which are configured alike. */
export function redisService(host: string, info: Info): RedisService | undefined {
  return SERVICES.find((service) => service.hosts?.test(host) || service.info?.(info));
}
