// Logs in Redis: a hash with the last number and the epoch, a sorted set of the entries, and for each part of the index a hash of its blocks and
// a sorted set of their first numbers. All keys of a log are in one slot of a Cluster.
import type { Result } from 'ioredis';
import {
  type ByteLogs,
  EPOCH_LENGTH,
  type LogBytes,
  type NumberedBytes,
  type Transform,
} from './byte-store.ts';
import {
  BLOCK_ROWS,
  COMPLETION_BYTES,
  COMPLETED_AT,
  NUMBER_BYTES,
  ROW_BYTES,
  TERM_BYTES,
  TERMS_AT,
} from './log-rows.ts';
import type { RedisClient } from './redis-client.ts';
import { LOG_PARTS, type LogPart, runsIn } from './store.ts';

/** A command is sent again within this time, if at all. */
const SENT_MS = 60_000;
/** Before Redis forgets it, also if a command takes long. */
const TOKEN_MS = 50_000;

// Lua numbers are exact up to 2^53.
const FUNCTIONS = `
local function text(number) return string.format('%.0f', number) end
local function bytes(number)
  local encoded = ''
  for _ = 1, ${NUMBER_BYTES} do
    encoded = string.char(number % 256) .. encoded
    number = math.floor(number / 256)
  end
  return encoded
end`;

// KEYS: head, entries, sent, and for each part its order and its blocks. ARGV: the epoch of a new log, the marks before and
// after (empty without), and for each entry the number of its
// part, what it completes (its epoch, first term and number; empty without), its row and its bytes. HINCRBY comes first, because Redis refuses
// it when it is full.
const APPEND_LOG = `${FUNCTIONS}
local sent = redis.call('GET', KEYS[3])
if sent then return { sent, redis.call('HGET', KEYS[1], 'epoch') } end
if ARGV[3] ~= '' then
  if (redis.call('HGET', KEYS[1], 'mark') or '') ~= ARGV[2] then return {} end
end
local count = (#ARGV - 3) / 4
local first = redis.call('HINCRBY', KEYS[1], 'last', count) - count + 1
redis.call('HSETNX', KEYS[1], 'epoch', ARGV[1])
if ARGV[3] ~= '' then redis.call('HSET', KEYS[1], 'mark', ARGV[3]) end
local epoch = redis.call('HGET', KEYS[1], 'epoch')
local added = {}
for index = 0, count - 1 do
  local at = 4 + index * 4
  local number = first + index
  redis.call('ZADD', KEYS[2], text(number), epoch .. ARGV[at + 3])
  local part = tonumber(ARGV[at])
  if ARGV[at + 1] == '' then
    added[part] = added[part] or {}
    table.insert(added[part], { number, bytes(number) .. ARGV[at + 2] })
  end
end
for part, rows in pairs(added) do
  local order, blocks = KEYS[2 + 2 * part], KEYS[3 + 2 * part]
  local id = redis.call('ZREVRANGE', order, 0, 0)[1]
  local block = id and redis.call('HGET', blocks, id)
  local last = 0
  while last < #rows do
    if not block or #block >= ${BLOCK_ROWS * ROW_BYTES} then
      id, block = text(rows[last + 1][1]), ''
      redis.call('ZADD', order, id, id)
    end
    local parts = { block }
    local to = math.min(#rows, last + ${BLOCK_ROWS} - #block / ${ROW_BYTES})
    for index = last + 1, to do table.insert(parts, rows[index][2]) end
    block = table.concat(parts)
    redis.call('HSET', blocks, id, block)
    last = to
  end
end
for index = 0, count - 1 do
  local at = 4 + index * 4
  local completes = ARGV[at + 1]
  local completed = string.sub(completes, ${EPOCH_LENGTH + TERM_BYTES + 1})
  local entry = completes ~= '' and redis.call('ZRANGEBYSCORE', KEYS[2], completed, completed)[1]
  if entry and string.sub(entry, 1, ${EPOCH_LENGTH}) == string.sub(completes, 1, ${EPOCH_LENGTH}) then
    local term = string.sub(completes, ${EPOCH_LENGTH + 1}, ${EPOCH_LENGTH + TERM_BYTES})
    local order, blocks = KEYS[2 + 2 * ARGV[at]], KEYS[3 + 2 * ARGV[at]]
    local id = redis.call('ZREVRANGEBYSCORE', order, completed, '-inf', 'LIMIT', 0, 1)[1]
    local block = id and redis.call('HGET', blocks, id) or ''
    local wanted = bytes(tonumber(completed))
    for from = 1, #block, ${ROW_BYTES} do
      local isWanted = string.sub(block, from, from + ${NUMBER_BYTES - 1}) == wanted
      if isWanted and string.sub(block, from + ${TERMS_AT}, from + ${TERMS_AT + TERM_BYTES - 1}) == term then
        local completion = bytes(first + index) .. string.sub(ARGV[at + 2], ${COMPLETED_AT + 1}, ${COMPLETED_AT + COMPLETION_BYTES - NUMBER_BYTES})
        block = string.sub(block, 1, from + ${COMPLETED_AT - 1}) .. completion .. string.sub(block, from + ${COMPLETED_AT + COMPLETION_BYTES})
        redis.call('HSET', blocks, id, block)
      end
    end
  end
end
redis.call('SET', KEYS[3], text(first), 'PX', ${SENT_MS})
return { text(first), epoch }`;

// ARGV: the number of each entry and its bytes without the epoch.
const REPLACE_ENTRIES = `
for at = 1, #ARGV, 2 do
  local entry = redis.call('ZRANGEBYSCORE', KEYS[1], ARGV[at], ARGV[at])[1]
  if entry then
    redis.call('ZREMRANGEBYSCORE', KEYS[1], ARGV[at], ARGV[at])
    redis.call('ZADD', KEYS[1], ARGV[at], string.sub(entry, 1, ${EPOCH_LENGTH}) .. ARGV[at + 1])
  end
end`;

// ARGV: the number of an entry, and its bytes before and after.
const REPLACE_ENTRY = `
if redis.call('ZRANGEBYSCORE', KEYS[1], ARGV[1], ARGV[1])[1] ~= ARGV[2] then return 0 end
redis.call('ZREM', KEYS[1], ARGV[2])
redis.call('ZADD', KEYS[1], ARGV[1], ARGV[3])
return 1`;

const READ_ENTRIES = `
local found = {}
for _, number in ipairs(ARGV) do
  local entry = redis.call('ZRANGEBYSCORE', KEYS[1], number, number)[1]
  if entry then
    found[#found + 1] = entry
    found[#found + 1] = number
  end
end
return found`;

// KEYS: order, blocks. ARGV: the command, and for each run of blocks where to begin and where to end, and how many.
const READ_BLOCKS = `
local found = {}
for at = 2, #ARGV, 3 do
  for _, id in ipairs(redis.call(ARGV[1], KEYS[1], ARGV[at], ARGV[at + 1], 'LIMIT', 0, ARGV[at + 2])) do
    local rows = redis.call('HGET', KEYS[2], id)
    if rows then
      found[#found + 1] = id
      found[#found + 1] = rows
    end
  end
end
return found`;

// KEYS: entries, order, blocks. ARGV: the number of changes, then for each the first number of the block, its rows before and after, then the
// first and the last number of each range to delete. If no row of a block is left, those that were added meanwhile are a block of their own: the rows
// before them may be in an older block now.
const TRIM_LOG = `${FUNCTIONS}
local function firstOf(rows)
  local number = 0
  for at = 1, ${NUMBER_BYTES} do number = number * 256 + string.byte(rows, at) end
  return text(number)
end
local changes = tonumber(ARGV[1])
local added = {}
for at = 2, 1 + 3 * changes, 3 do
  local rows = redis.call('HGET', KEYS[3], ARGV[at]) or ''
  if string.sub(rows, 1, #ARGV[at + 1]) ~= ARGV[at + 1] then return 0 end
  added[at] = string.sub(rows, #ARGV[at + 1] + 1)
end
for at = 2, 1 + 3 * changes, 3 do
  local id, rows = ARGV[at], ARGV[at + 2] .. added[at]
  if ARGV[at + 2] == '' then
    redis.call('HDEL', KEYS[3], id)
    redis.call('ZREM', KEYS[2], id)
    id = rows ~= '' and firstOf(rows)
    if id then redis.call('ZADD', KEYS[2], id, id) end
  end
  if id then redis.call('HSET', KEYS[3], id, rows) end
end
for at = 2 + 3 * changes, #ARGV, 2 do redis.call('ZREMRANGEBYSCORE', KEYS[1], ARGV[at], ARGV[at + 1]) end
return 1`;

declare module 'ioredis' {
  interface RedisCommander<Context> {
    appendLogBuffer(...keysAndArguments: (string | Buffer)[]): Result<[Buffer?, Buffer?], Context>;
    replaceLogEntries(key: string, ...entries: (string | Buffer)[]): Result<unknown, Context>;
    replaceLogEntry(
      key: string,
      number: number,
      before: Buffer,
      next: Buffer,
    ): Result<0 | 1, Context>;
    readLogEntriesBuffer(key: string, ...numbers: number[]): Result<Buffer[], Context>;
    readLogBlocksBuffer(
      order: string,
      blocks: string,
      command: 'ZRANGEBYSCORE' | 'ZREVRANGEBYSCORE',
      ...runs: (string | number)[]
    ): Result<Buffer[], Context>;
    trimLog(...keysAndArguments: (string | number | Buffer)[]): Result<0 | 1, Context>;
  }
}

export function defineLogCommands(client: RedisClient): void {
  client.defineCommand('appendLog', { numberOfKeys: 3 + 2 * LOG_PARTS.length, lua: APPEND_LOG });
  client.defineCommand('replaceLogEntries', { numberOfKeys: 1, lua: REPLACE_ENTRIES });
  client.defineCommand('replaceLogEntry', { numberOfKeys: 1, lua: REPLACE_ENTRY });
  client.defineCommand('readLogEntries', { numberOfKeys: 1, lua: READ_ENTRIES });
  client.defineCommand('readLogBlocks', { numberOfKeys: 2, lua: READ_BLOCKS });
  client.defineCommand('trimLog', { numberOfKeys: 3, lua: TRIM_LOG });
}

export function redisLogs(client: RedisClient): ByteLogs {
  return {
    tokenMs: TOKEN_MS,
    async appendLog(name, entries, { token, epoch, mark }) {
      const keys = [
        name,
        entriesOf(name),
        `sent:{${name}}:${token}`,
        ...LOG_PARTS.flatMap((part) => indexOf(name, part)),
      ];
      const sent = entries.flatMap(({ part, completes, row, bytes }: LogBytes) => [
        String(LOG_PARTS.indexOf(part) + 1),
        completionBytes(completes),
        row,
        bytes,
      ]);
      const marks = [mark?.before ?? '', mark?.after ?? ''];
      const [first, current] = await client.appendLogBuffer(...keys, epoch, ...marks, ...sent);
      if (!first || !current) return undefined;
      return { first: Number(first.toString()), epoch: current.toString('latin1') };
    },
    logMark: async (name) => (await client.hget(name, 'mark')) ?? '',
    async replaceLogEntries(name, entries) {
      const sent = entries.flatMap(([number, bytes]) => [String(number), bytes]);
      await client.replaceLogEntries(entriesOf(name), ...sent);
    },
    async readLog(name, { after, limit }) {
      const key = entriesOf(name);
      return numbered(
        await client.zrangebyscoreBuffer(key, `(${after}`, '+inf', 'WITHSCORES', 'LIMIT', 0, limit),
      );
    },
    readLogEntries: async (name, numbers) =>
      numbered(await client.readLogEntriesBuffer(entriesOf(name), ...numbers)),
    lastInLog: async (name) => Number((await client.hget(name, 'last')) ?? 0),
    async beginLogEpoch(name, epoch) {
      await client.hset(name, 'epoch', epoch);
    },
    async readLogBlocks(name, range) {
      const [order, blocks] = indexOf(name, range.part);
      const [command, ...runs] =
        'after' in range
          ? (['ZRANGEBYSCORE', range.after, '+inf', range.limit] as const)
          : ([
              'ZREVRANGEBYSCORE',
              ...runsIn(range).flatMap(({ before, limit }) => [`(${before}`, '-inf', limit]),
            ] as const);
      if (runs.length === 0) return [];
      const flat = await client.readLogBlocksBuffer(order, blocks, command, ...runs);
      return pairs(flat).map(([first, rows]) => ({ first: Number(first.toString()), rows }));
    },
    async trimLog(name, { part, ranges, blocks }) {
      const changes = blocks.flatMap(({ before, after }) => [before.first, before.rows, after]);
      const keys = [entriesOf(name), ...indexOf(name, part)];
      return (await client.trimLog(...keys, blocks.length, ...changes, ...ranges.flat())) === 1;
    },
  };
}

const REWRITTEN_ENTRIES = 100;

/** Does nothing if the key is not of entries of a log. */
export async function* rewriteLogEntries(
  client: RedisClient,
  key: string,
  transform: Transform,
): AsyncGenerator<number> {
  const [, name] = /^entries:\{(.+)\}$/.exec(key) ?? [];
  if (name === undefined) return;
  for (let after = 0; ;) {
    const range = [`(${after}`, '+inf', 'WITHSCORES', 'LIMIT', 0, REWRITTEN_ENTRIES] as const;
    const entries = numbered(await client.zrangebyscoreBuffer(key, ...range));
    const counts = await Promise.all(
      entries.map(async ([number, before]) => {
        const [epoch, encrypted] = [
          before.subarray(0, EPOCH_LENGTH),
          before.subarray(EPOCH_LENGTH),
        ];
        const next = transform(encrypted, { name, entry: String(number) });
        if (!next) return 0;
        return client.replaceLogEntry(key, number, before, Buffer.concat([epoch, next]));
      }),
    );
    yield counts.reduce<number>((sum, count) => sum + count, 0);
    if (entries.length < REWRITTEN_ENTRIES) return;
    after = entries.at(-1)?.[0] ?? after;
  }
}

function completionBytes(completes: LogBytes['completes']): Buffer | '' {
  if (!completes) return '';
  const { number, epoch, term } = completes;
  const start = Buffer.alloc(EPOCH_LENGTH + TERM_BYTES);
  start.write(epoch, 'latin1');
  start.writeUInt32BE(term, EPOCH_LENGTH);
  return Buffer.concat([start, Buffer.from(String(number))]);
}

function entriesOf(name: string): string {
  return `entries:{${name}}`;
}

function indexOf(name: string, part: LogPart): [order: string, blocks: string] {
  return [`order:{${name}}:${part}`, `blocks:{${name}}:${part}`];
}

function numbered(flat: readonly Buffer[]): NumberedBytes[] {
  return pairs(flat).map(([bytes, number]) => [Number(number.toString()), bytes]);
}

function pairs(flat: readonly Buffer[]): [Buffer, Buffer][] {
  return Array.from({ length: flat.length / 2 }, (_, index) => [
    flat[2 * index] ?? NOTHING,
    flat[2 * index + 1] ?? NOTHING,
  ]);
}

const NOTHING = Buffer.alloc(0);
