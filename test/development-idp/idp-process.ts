// The development identity provider as a process of its own: port and data directory are its arguments; says when it listens.
import { startIdp } from './running-idp.ts';

const [port, dataDir] = process.argv.slice(2);
if (!port || !dataDir) throw new Error('needs a port and a data directory');
await startIdp({ port: Number(port), dataDir });
process.stdout.write('listening\n');
