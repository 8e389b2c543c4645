// The commands of `gatehouse audit` that prove that the log is as it was written.
import { readFile } from 'node:fs/promises';
import { type Command, InvalidArgumentError } from 'commander';
import type { JWK } from 'jose';
import {
  type Checkpoint,
  checkpointSignatures,
  readCheckpoint,
} from '../../audit/chain/checkpoint.ts';
import type { Verification } from '../../audit/chain/verifier.ts';
import { isObject, membersOf } from '../../json-values.ts';
import type { ManagementClient } from '../api/client.ts';
import { ManagementError } from '../api/management-error.ts';
import { absoluteTime, type RelativeOrAbsoluteTime } from './options.ts';
import { CommandFailed, jsonText, second, table, type Terminal } from './terminal.ts';

const EXIT_FINDING = 1;
const EXIT_NOT_CHECKED = 3;

const VERIFY_HELP = `
Recomputes the chain of checkpoints, in the store of the running Gatehouse or, with --file and --keys, in an export, which needs no Gatehouse.
It names what was changed, removed or inserted. What is newer than the last checkpoint that left the system can be removed unseen: keep one
(gatehouse audit --event checkpoint --limit 1 --json) and name it with --checkpoint.

Exit codes: 0 as it was written, 1 a finding, 2 wrong usage or an export with filters, 3 it could not be checked.

Examples:
  $ gatehouse audit verify --since 24h
  $ gatehouse audit keys > keys.json
  $ gatehouse audit verify --file export.jsonl --keys keys.json
  $ gatehouse audit verify --checkpoint checkpoint.json`;

type VerifyOptions = {
  since?: RelativeOrAbsoluteTime;
  file?: string;
  keys?: string;
  checkpoint?: string;
};

export function addIntegrityCommands(audit: Command, terminal: Terminal): void {
  const { openClient, write, print, exitWith } = terminal;
  audit
    .command('keys')
    .description('print the public keys that verify the audit log, as JSON')
    .action(async () => write(jsonText(await openClient().showAuditKeys())));
  audit
    .command('verify')
    .description('verify that no item of the audit log was changed, removed or inserted')
    .option('--since <when>', 'checkpoints of the last 15m, 24h or 7d, or since an ISO 8601 time')
    .option('--file <export>', 'an export in place of the log, see gatehouse audit export')
    .option('--keys <keys>', 'the keys for the export, see gatehouse audit keys')
    .option('--checkpoint <file>', 'an item checkpoint as JSON that must be part of the log')
    .addHelpText('after', VERIFY_HELP)
    .action(async (_options: unknown, command: Command) => {
      // `gatehouse audit` has the option --since too, and reads it first.
      const options = command.optsWithGlobals<VerifyOptions>();
      if ((options.file === undefined) !== (options.keys === undefined))
        throw new InvalidArgumentError('--file and --keys belong together');
      if (options.file !== undefined && options.since !== undefined)
        throw new InvalidArgumentError('--since is for the log: export what you want to verify');
      const verification = await verify(options, terminal);
      print(verification, verificationText);
      if (!verification.ok) exitWith(EXIT_FINDING);
      else if (verification.checkpoints === 0) exitWith(EXIT_NOT_CHECKED);
    });
}

async function verify(options: VerifyOptions, terminal: Terminal): Promise<Verification> {
  try {
    const jws = options.checkpoint && (await checkpointIn(options.checkpoint));
    return options.file !== undefined && options.keys !== undefined
      ? await verifyFile(options.file, options.keys, jws, terminal)
      : await verifyLog(terminal.openClient(), { ...options, jws }, terminal);
  } catch (error) {
    if (error instanceof InvalidArgumentError) throw error;
    throw new CommandFailed(EXIT_NOT_CHECKED, error);
  }
}

async function verifyLog(
  client: ManagementClient,
  { since, jws }: Pick<VerifyOptions, 'since'> & { jws: string | undefined },
  { now, progress }: Terminal,
): Promise<Verification> {
  const query = { since: since && absoluteTime(since, now()), checkpoint: jws };
  let rest = '';
  for await (const text of await client.verifyAudit({ query })) {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      const {
        result,
        progress: done,
        error,
        error_description: description,
      } = membersOf(JSON.parse(line));
      if (isObject(result)) return result as Verification;
      if (error !== undefined) throw new ManagementError(String(error), String(description));
      showProgress(progress, Number(membersOf(done)['checkpoints']));
    }
  }
  throw new Error('the answer ended before the result');
}

async function verifyFile(
  file: string,
  keyFile: string,
  jws: string | undefined,
  { progress }: Terminal,
): Promise<Verification> {
  const { FilteredExport, verifyExport } = await import('../../audit/chain/verify-export.ts');
  const keys = await keysIn(keyFile);
  const kept = jws === undefined ? undefined : await signedCheckpoint(jws, keys);
  try {
    return await verifyExport(file, {
      keys,
      kept,
      onProgress: (done) => showProgress(progress, done),
    });
  } catch (error) {
    if (error instanceof FilteredExport) throw new InvalidArgumentError(error.message);
    throw error;
  }
}

function showProgress(progress: Terminal['progress'], checkpoints: number): void {
  if (progress.isTTY) progress.write(`\r${checkpoints} checkpoints`);
}

async function keysIn(file: string): Promise<JWK[]> {
  const { keys } = membersOf(JSON.parse(await readFile(file, 'utf8')));
  if (Array.isArray(keys) && keys.length > 0) return keys as JWK[];
  throw new Error(`${file} has no keys: see gatehouse audit keys`);
}

/** The item as it is listed, exported or delivered, or a list with it. */
async function checkpointIn(file: string): Promise<string> {
  const read = membersOf(JSON.parse(await readFile(file, 'utf8')));
  const [first] = Array.isArray(read['items']) ? read['items'] : [read];
  const { jws } = membersOf(first);
  if (typeof jws === 'string' && readCheckpoint(jws)) return jws;
  throw new Error(`${file} has no item checkpoint of the audit log`);
}

async function signedCheckpoint(jws: string, keys: readonly JWK[]): Promise<Checkpoint> {
  const checkpoint = readCheckpoint(jws);
  if (checkpoint && (await checkpointSignatures(keys)(jws))) return checkpoint;
  throw new Error('none of the keys signed the checkpoint');
}

const MEANINGS: Readonly<Record<string, string>> = {
  changed: 'is not as it was written, or not at its place',
  removed: 'is missing, and no trimming explains it',
  inserted: 'was not there when the items around it were signed',
  index: 'is not found by lists and filters as it is',
  missing_tail: 'is a checkpoint that the log does not have',
  rolled_back: 'the store lost items before it (no finding)',
};

function verificationText({ ok, checkpoints, problems, notes }: Verification): string {
  const rows = [...problems, ...notes].map(({ kind, id, time }) => [
    kind,
    id,
    time === '' ? '-' : second(time),
    MEANINGS[kind] ?? '',
  ]);
  if (ok && checkpoints === 0)
    return 'Nothing was verified, because there is no checkpoint yet; one is made within a minute after an item.';
  const summary = ok
    ? `The log is as it was written (${checkpoints} checkpoints).`
    : `The log is not as it was written (${checkpoints} checkpoints).`;
  return rows.length === 0 ? summary : `${summary}\n${table(['KIND', 'ITEM', 'TIME', ''], rows)}`;
}
