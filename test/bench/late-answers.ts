// Makes what this process hears from Redis late, as if that were some way off: to be loaded before anything that connects (bytes are late in here, so that nothing else works for it).
import net, { type Socket } from 'node:net';

/** In turn, and a little later, timers being what they are. As on any network they vary: else all that waits for the same tick goes on together for ever. */
const LATE_MS = [1, 2, 3, 4];

const { createConnection } = net;
// As the client of Redis calls it, whatever it gives.
net.createConnection = ((...given: Parameters<typeof createConnection>) =>
  late(createConnection(...given))) as typeof createConnection;

/** When a time is over the first in line is delivered, whosever time it was: the order never changes. */
function late(socket: Socket): Socket {
  const deliver = socket.push.bind(socket);
  const waiting: unknown[] = [];
  let turn = 0;
  socket.push = (bytes: unknown) => {
    waiting.push(bytes);
    setTimeout(() => deliver(waiting.shift()), LATE_MS[turn++ % LATE_MS.length]);
    return true;
  };
  return socket;
}
