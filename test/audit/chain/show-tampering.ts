// Prints what the verification of the audit log says about each kind of tampering, on SQLite and on Redis: node test/audit/chain/show-tampering.ts
import { STORES } from '../../support/system.ts';
import { openChainLog } from './chain-log.ts';
import { newestOf, prepareEvidence, STORE_TAMPERING } from './tampering.ts';

for (const kind of STORES)
  for (const { what, tamper, isKept } of STORE_TAMPERING) {
    const log = await openChainLog(kind);
    try {
      const evidence = await prepareEvidence(log);
      await tamper(evidence);
      const { problems } = await log.verify(isKept ? { kept: newestOf(evidence) } : {});
      const [first] = problems;
      const found = first ? `${first.kind} ${first.id}` : 'nothing';
      process.stdout.write(`${kind}: ${what}: ${found}\n`);
    } finally {
      await log.close();
    }
  }
