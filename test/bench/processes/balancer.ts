// A load balancer in a process of its own: passes each connection to the next target. Its argument is a list of `[port, targets]`.
import { connect, createServer, type Socket } from 'node:net';

const routes: [port: number, targets: number[]][] = JSON.parse(process.argv[2] ?? '[]');
for (const [port, targets] of routes) {
  let turn = 0;
  const server = createServer({ noDelay: true }, (client) => {
    const target = connect({ port: targets[turn++ % targets.length] ?? 0, noDelay: true });
    join(client, target);
    join(target, client);
  });
  server.listen(port, '127.0.0.1');
}

/** An error on one side ends the other. */
function join(from: Socket, to: Socket): void {
  from.pipe(to);
  from.once('error', () => to.destroy());
}
