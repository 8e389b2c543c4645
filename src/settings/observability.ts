// The settings of what goes out to watch it by: traces. Where they go is said by the variables of OpenTelemetry (traces.ts).
import { z } from 'zod';

const YES_OR_NO = 'true or false';

export const observability = z
  .strictObject({
    traces: z.boolean(YES_OR_NO).default(false),
    privateNetwork: z.boolean(YES_OR_NO).default(false),
  })
  .prefault({});
