// Runs the development identity provider. Arguments: port and data directory. Prints `listening`.
import { startIdp } from './running-idp.ts';

const [port, dataDir] = process.argv.slice(2);
if (!port || !dataDir) throw new Error('usage: idp-process.ts <port> <data directory>');
await startIdp({ port: Number(port), dataDir });
process.stdout.write('listening\n');
