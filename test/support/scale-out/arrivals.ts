// Arrivals at a constant rate, whatever the answers take, as people come who know nothing of each other.
import { until } from '../../store/condition.ts';

export type Paced = {
  /** How many had to begin until now. */
  asked(): number;
  /** Those of them that did not begin yet, because too many were under way. */
  behind(): number;
  /** No more arrivals; resolves when those that began are through. */
  stop(): Promise<void>;
};

const BETWEEN_LOOKS_MS = 5;
const ENDING_SECONDS = 60;

/** What could not begin begins as soon as it can. `arrive` must not throw. */
export function pace(perSecond: number, atMost: number, arrive: () => Promise<void>): Paced {
  const origin = performance.now();
  let [due, begun, underWay] = [0, 0, 0];
  const look = () => {
    due = Math.floor(((performance.now() - origin) / 1000) * perSecond);
    for (; begun < due && underWay < atMost; begun += 1) {
      underWay += 1;
      void arrive().finally(() => (underWay -= 1));
    }
  };
  const looking = setInterval(look, BETWEEN_LOOKS_MS);
  return {
    asked: () => due,
    behind: () => due - begun,
    async stop() {
      clearInterval(looking);
      await until('all that began is through', () => underWay === 0, ENDING_SECONDS);
    },
  };
}
