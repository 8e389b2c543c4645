// The connections that Node hands over to workers.
import type { Worker } from 'node:cluster';

/** What `node:cluster` says between its processes. It is not documented. */
type ClusterMessage = { cmd?: string; act?: string; seq?: number; ack?: number };

/**
 * Node closes a connection in the supervisor when the worker has answered that it took it. Answers in place of a worker that died before, so that
 * the client is not left waiting for ever. Without these messages of Node, it does nothing.
 */
export function answerHandovers(worker: Worker): void {
  const { process: child } = worker;
  const unanswered = new Set<number>();
  const send = child.send.bind(child) as (...sent: unknown[]) => boolean;
  child.send = (...sent: unknown[]) => {
    const { act, seq } = sent[0] as ClusterMessage;
    if (act === 'newconn' && seq !== undefined) unanswered.add(seq);
    return send(...sent);
  };
  child.on('internalMessage', ({ ack }: ClusterMessage) => {
    if (ack !== undefined) unanswered.delete(ack);
  });
  // Node tells of the end of the channel only if it does not wait for an answer there. It gives a dead worker without a channel no more connections.
  worker.once('exit', () => {
    if (worker.isConnected()) child.disconnect();
    setImmediate(() => {
      for (const ack of unanswered)
        child.emit('internalMessage', { cmd: 'NODE_CLUSTER', ack, accepted: true });
    });
  });
}
