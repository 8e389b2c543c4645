/** What must be closed together. */
export type Resources = {
  defer(close: () => void | Promise<void>): void;
  /** Closes everything, last added first. Rejects with the first error, after everything was closed. */
  close(): Promise<void>;
};

/** Node 22 lacks `AsyncDisposableStack`. */
export function createResources(): Resources {
  const steps: (() => void | Promise<void>)[] = [];
  return {
    defer: (step) => void steps.push(step),
    async close() {
      const errors: unknown[] = [];
      for (const step of steps.splice(0).toReversed())
        try {
          await step();
        } catch (error) {
          errors.push(error);
        }
      if (errors.length > 0) throw errors[0];
    },
  };
}
