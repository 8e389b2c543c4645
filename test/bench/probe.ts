// Sends small requests to its argument, one after the other, and prints the milliseconds that each took; `Infinity` if it failed.
import { setTimeout as delay } from 'node:timers/promises';

const INTERVAL_MS = 20;

for (;;) {
  const begun = performance.now();
  const isAnswered = await fetch(String(process.argv[2])).then(
    async (response) => (await response.text()) !== '' && response.ok,
    () => false,
  );
  console.log(isAnswered ? performance.now() - begun : Infinity);
  await delay(INTERVAL_MS);
}
