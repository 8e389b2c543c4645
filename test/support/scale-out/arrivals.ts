// Arrivals at a constant rate, whatever the answers take, as people come who know nothing of each other.
import { until } from '../../store/condition.ts';

export type Arrivals = {
  /** How many had to begin until now. */
  due(): number;
  /** Those of them that did not begin yet, because too many were under way. */
  behind(): number;
  /** No more arrivals; resolves when those that began are through. */
  stop(): Promise<void>;
};

const INTERVAL_MS = 5;
const STOP_TIMEOUT_SECONDS = 60;

/** What could not begin begins as soon as it can. `arrive` must not throw. */
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
      await until('all that began is through', () => underWay === 0, STOP_TIMEOUT_SECONDS);
    },
  };
}
