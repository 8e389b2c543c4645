// The child process of anonymous-flood.ts. Its argument is the flood as JSON; it prints a line at the first response and one with the result.
import { sendFlood } from './anonymous-flood-sender.ts';

const statuses = await sendFlood(JSON.parse(process.argv[2] ?? ''), () => console.log('begun'));
console.log(JSON.stringify(statuses));
