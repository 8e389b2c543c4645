// Open-loop load: arrivals at a constant rate, independent of response times.
import { until } from '../until.ts';

export type Arrivals = {
  /** The number of arrivals due so far. */
  due(): number;
  /** Due arrivals that have not started, because too many were under way. */
  behind(): number;
  /** Stops arrivals; resolves when those that started have finished. */
  stop(): Promise<void>;
};

const INTERVAL_MS = 5;
const STOP_TIMEOUT_SECONDS = 60;

/** Starts delayed arrivals as soon as possible. `arrive` must not throw. */
export function startArrivals(
  perSecond: number,
  atMost: number,
  arrive: () => Promise<void>,
): Arrivals {
  const origin = performance.now();
  let [due, begun, underWay] = [0, 0, 0];
  const look = () => {
    due = Math.floor(((performance.now() - origin) / 1000) * perSecond);
    for (; begun < due && underWay < atMost; begun += 1) {
      underWay += 1;
      void arrive().finally(() => (underWay -= 1));
    }
  };
  const looking = setInterval(look, INTERVAL_MS);
  return {
    due: () => due,
    behind: () => due - begun,
    async stop() {
      clearInterval(looking);
      await until('all arrivals to finish', () => underWay === 0, STOP_TIMEOUT_SECONDS);
    },
  };
}
