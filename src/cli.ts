// gatehouse.js runs this file.
import './settings/library-debug.ts';
import { runCommandLine } from './command-line.ts';

// The reader may close the pipe early: `gatehouse connector list | head -1`.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
});

process.exitCode = await runCommandLine(process.argv.slice(2), process);
