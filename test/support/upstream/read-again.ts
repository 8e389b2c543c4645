import { advanceClock } from '../clock.ts';
import { until } from '../until.ts';

/** Takes the clock to Gatehouse's next reading of the tools, until `isRead`: one that was in progress may have come too early. */
export async function readAgain(isRead: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await isRead())) {
    advanceClock(301);
    const end = performance.now() + 3000;
    await until('a reading', async () => (await isRead()) || performance.now() > end);
  }
}
