// Loaded before the program: kills it before its write number KILL_AT: a commit of SQLite reaches the disk, or a command that may change something
// is sent to Redis.
import { DatabaseSync } from 'node:sqlite';
import { Redis } from 'ioredis';

const last = Number(process.env['KILL_AT']);
let writes = 0;

function countWrite(): void {
  writes += 1;
  if (writes === last) process.kill(process.pid, 'SIGKILL');
}

const { exec } = DatabaseSync.prototype;
DatabaseSync.prototype.exec = function execUnlessLast(sql: string): void {
  if (sql === 'COMMIT') countWrite();
  exec.call(this, sql);
};

/** Of a connection, and of reading. */
const CHANGES_NOTHING =
  /^(auth|client|cluster|command|config|exists|get|hello|hget|hgetall|hlen|hmget|hscan|info|mget|pexpiretime|ping|psubscribe|pttl|quit|role|scan|select|smembers|strlen|subscribe|time|ttl|type|unsubscribe|wait|xlen|xrange|xrevrange|zcard|zcount|zrange|zrangebylex|zrangebyscore|zrevrange|zscore)$/;

const { sendCommand } = Redis.prototype;
Redis.prototype.sendCommand = function sendUnlessLast(...given) {
  if (!CHANGES_NOTHING.test(given[0].name.toLowerCase())) countWrite();
  return sendCommand.apply(this, given);
};
