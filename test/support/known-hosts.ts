// Directs public host names to servers of the tests, for this process, so that addresses are those of real services.
import { connect } from 'node:net';
import { Agent, buildConnector, getGlobalDispatcher, setGlobalDispatcher } from 'undici';

/** `ports` has the port on this computer for each `host` or `host:port`. The servers use no TLS. Returns a function that ends it. */
export function directHosts(ports: ReadonlyMap<string, number>): () => Promise<void> {
  const usual = getGlobalDispatcher();
  const connectUsually = buildConnector({});
  const agent = new Agent({
    connect(options, callback) {
      const port = ports.get(
        options.port ? `${options.hostname}:${options.port}` : options.hostname,
      );
      if (port === undefined) return connectUsually(options, callback);
      const socket = connect(port, '127.0.0.1');
      socket.once('connect', () => callback(null, socket));
      socket.once('error', (error) => callback(error, null));
    },
  });
  setGlobalDispatcher(agent);
  return async () => {
    setGlobalDispatcher(usual);
    await agent.close();
  };
}
