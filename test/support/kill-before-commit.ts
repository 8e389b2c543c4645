// Loaded before the program: kills it before its commit number KILL_AT reaches the disk.
import { DatabaseSync } from 'node:sqlite';

const last = Number(process.env['KILL_AT']);
let commits = 0;
const { exec } = DatabaseSync.prototype;

DatabaseSync.prototype.exec = function execUnlessLast(sql: string): void {
  if (sql === 'COMMIT') commits += 1;
  if (commits === last) process.kill(process.pid, 'SIGKILL');
  exec.call(this, sql);
};
