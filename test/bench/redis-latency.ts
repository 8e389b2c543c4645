// Delays what this process receives from Redis by a few milliseconds. Import it before anything that connects.
import net, { type Socket } from 'node:net';

/** Used in turn. They vary as on a network, because equal delays would keep concurrent requests in step. */
const DELAYS_MS = [1, 2, 3, 4];

const { createConnection } = net;
net.createConnection = ((...given: Parameters<typeof createConnection>) =>
  delayed(createConnection(...given))) as typeof createConnection;

/** Each timer delivers the first bytes in the queue, so the order never changes. */
function delayed(socket: Socket): Socket {
  const deliver = socket.push.bind(socket);
  const waiting: unknown[] = [];
  let turn = 0;
  socket.push = (bytes: unknown) => {
    waiting.push(bytes);
    setTimeout(() => deliver(waiting.shift()), DELAYS_MS[turn++ % DELAYS_MS.length]);
    return true;
  };
  return socket;
}
