// Explains errors of Redis, and of services that speak its protocol, in words.

/** `what` is a predicate whose subject is the server. Neither has a capital letter at the start or a full stop. */
export type RedisFault = { what: string; remedy: string };

export const RIGHTS = 'give the user the rights that config/redis.md lists';

const FAULTS: readonly [pattern: RegExp, fault: (reply: string) => RedisFault][] = [
  [
    // ioredis adds the last error of a Sentinel to its own.
    /sentinels are unreachable.*(NOAUTH|WRONGPASS|NOPERM|invalid password)/is,
    (reply) => ({
      what: `is watched by Sentinels that refuse the user name or password (${reply})`,
      remedy:
        'add ?sentinelPassword=… (and sentinelUsername=…) to the end of the address in GATEHOUSE_STORE',
    }),
  ],
  [
    /sentinels are unreachable.*unknown command.*sentinel/is,
    (reply) => ({
      what: `is not a Sentinel (${reply})`,
      remedy: 'use redis:// in place of redis+sentinel://, or the port of a Sentinel, often 26379',
    }),
  ],
  [
    /No such master/,
    (reply) => ({
      what: `watches no master with this name (${reply})`,
      remedy: 'use the name in its "sentinel monitor" as the end of GATEHOUSE_STORE',
    }),
  ],
  [
    /^READONLY/,
    () => ({
      what: 'is a replica, which accepts no writes',
      remedy: 'use the address of the primary, or redis+sentinel:// or redis+cluster://',
    }),
  ],
  [
    /^(MOVED|ASK|CROSSSLOT)\b/,
    () => ({
      what: 'is part of a Redis Cluster',
      remedy: 'use redis+cluster:// (with TLS rediss+cluster://) and the addresses of some nodes',
    }),
  ],
  [
    /cluster support disabled|unknown command.*cluster/i,
    () => ({
      what: 'is not part of a Redis Cluster',
      remedy: 'use redis:// in place of redis+cluster://',
    }),
  ],
  [
    /NOAUTH/,
    () => ({
      what: 'requires a password',
      remedy: 'put it into GATEHOUSE_STORE: redis://<user>:<password>@<host>:<port>',
    }),
  ],
  [
    /WRONGPASS|invalid password/,
    (reply) => ({
      what: `refuses the user name or password (${reply})`,
      remedy:
        'check both in GATEHOUSE_STORE; characters such as @, / and # are written as %40, %2F and %23',
    }),
  ],
  [
    /^DENIED/,
    () => ({
      what: 'accepts connections of its own machine only (protected mode)',
      remedy: 'set a password there, and put it into GATEHOUSE_STORE',
    }),
  ],
  [
    /NOPERM/,
    (reply) => ({ what: `does not let this user do what is needed (${reply})`, remedy: RIGHTS }),
  ],
];

export const IS_SENTINEL: RedisFault = {
  what: 'is a Sentinel, which holds no data',
  remedy: 'use redis+sentinel:// with the name of the master at the end',
};

/** Returns undefined for an error that is not about how Redis is set up. */
export function redisFault(error: unknown): RedisFault | undefined {
  const message = messageOf(error);
  const refused = refusedDatabase(error);
  if (refused !== undefined && !message.includes('NOPERM'))
    return {
      what: `has no database ${refused} (${message})`,
      remedy:
        'leave the number at the end of GATEHOUSE_STORE out, and give Gatehouse a server of its own; many services have only database 0',
    };
  return FAULTS.find(([pattern]) => pattern.test(message))?.[1](lastSentence(message));
}

/** ioredis reports the error of the last node of a Cluster apart. */
function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const inner = 'lastNodeError' in error ? error.lastNodeError : undefined;
  return inner instanceof Error ? inner.message : error.message;
}

/** The number of a database that Redis refuses to select, as this client asked for it. */
export function refusedDatabase(error: unknown): string | undefined {
  const { name, args } = commandOf(error);
  return name === 'select' ? String(args[0]) : undefined;
}

function commandOf(error: unknown): { name: string; args: readonly unknown[] } {
  const command = error instanceof Error && 'command' in error ? error.command : undefined;
  const { name, args } = (command ?? {}) as { name?: unknown; args?: unknown };
  return { name: String(name), args: Array.isArray(args) ? args : [] };
}

function lastSentence(message: string): string {
  return (message.split('Last error: ').at(-1) ?? message).replace(/\.$/, '');
}

/** Ends when memory, disk, replicas or a script that runs allow it; the others end when somebody changes the setup. */
const TEMPORARY = /^(OOM|MISCONF|NOREPLICAS|BUSY|LOADING|MASTERDOWN|CLUSTERDOWN|TRYAGAIN)\b/;

/** Whether Redis refuses a command for good: a right, the command itself or the kind of server. */
export function isRefusal(error: unknown): error is Error {
  return error instanceof Error && error.name === 'ReplyError' && !TEMPORARY.test(error.message);
}
