// How long it takes to verify a long audit log, in the store and in an export, and how much memory: node test/bench/audit-verification.ts [items]
import { open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { publicChainKeys } from '../../src/audit/chain/chain-keys.ts';
import { exportedLog, exportLine } from '../../src/audit/chain/export.ts';
import { verifyExport } from '../../src/audit/chain/verify-export.ts';
import { openChainLog } from '../audit/chain/chain-log.ts';

const [, , given = '100000'] = process.argv;
const ITEMS = Number(given);
const AT_A_TIME = 1000;

async function measured<Result>(what: string, work: () => Promise<Result>): Promise<Result> {
  const began = performance.now();
  let most = 0;
  let longest = 0;
  let last = began;
  const watching = setInterval(() => {
    most = Math.max(most, process.memoryUsage().rss);
    longest = Math.max(longest, performance.now() - last - 20);
    last = performance.now();
  }, 20);
  try {
    return await work();
  } finally {
    clearInterval(watching);
    const seconds = ((performance.now() - began) / 1000).toFixed(1);
    const megabytes = Math.round(most / 1024 ** 2);
    process.stdout.write(
      `${what}: ${seconds} s, up to ${megabytes} MB, the event loop waits up to ${Math.round(longest)} ms\n`,
    );
  }
}

const log = await openChainLog('sqlite');
const file = join(tmpdir(), `gatehouse-export-${process.pid}.jsonl`);
try {
  const item = { account: 'ada', address: '192.0.2.1', userAgent: 'bench', tool: 'list_orders' };
  await measured(`append ${ITEMS} items with checkpoints`, async () => {
    for (let left = ITEMS; left > 0; left -= AT_A_TIME) {
      await log.append(Math.min(left, AT_A_TIME), item);
      await log.checkpoint();
    }
  });
  const inStore = await measured('verify the store', () => log.verify());
  await measured('export', async () => {
    const handle = await open(file, 'w');
    const about = { issuer: 'https://auth.example.com', time: '', filters: {} };
    let text = exportLine({ export: about });
    for await (const line of exportedLog(log.store, {})) {
      text += exportLine(line);
      if (text.length < 1_000_000) continue;
      await handle.write(text);
      text = '';
    }
    await handle.write(text);
    await handle.close();
  });
  const { keys } = await publicChainKeys(log.store, log.now());
  const inExport = await measured('verify the export', () => verifyExport(file, { keys }));
  process.stdout.write(`${JSON.stringify({ inStore, inExport })}\n`);
} finally {
  await log.close();
  await rm(file, { force: true });
}
