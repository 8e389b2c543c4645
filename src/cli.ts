#!/usr/bin/env node
// gatehouse.js runs this file. It is a program too, because npx keeps links to it from earlier versions of a checkout.
import './settings/library-debug.ts';
import { runCommandLine } from './command-line.ts';

// The reader may close the pipe early: `gatehouse connector list | head -1`.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
});

process.exitCode = await runCommandLine(process.argv.slice(2), process);
