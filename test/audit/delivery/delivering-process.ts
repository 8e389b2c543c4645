// Delivers the log of a test until it is killed. Arguments: the data directory, the seconds that its clock is ahead, the target.
import { openDeliveredLog } from './delivered-log.ts';

const [dataDir = '', ahead = '0', target = '{}'] = process.argv.slice(2);
const log = await openDeliveredLog({ dataDir, ahead: Number(ahead) });
await log.deliver([JSON.parse(target)]);
// Keeps running without the test's help, which kills it.
setInterval(() => undefined, 1000);
