// Writes more lines to the log than may wait, and ends with standard input.
import { createLogger } from '../../src/observability/logger.ts';

const logger = createLogger('info');
for (let n = 0; n < Number(process.argv[2]); n += 1) logger.info({ n }, 'x'.repeat(300));
process.stdout.write('written\n');
process.stdin.resume();
