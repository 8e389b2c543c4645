// mcp-oauth-server in the comparison, on Express with its only store, in memory.
import { freePorts } from '../../support/free-ports.ts';
import { METADATA_PATH } from '../subjects.ts';
import { type Implementation, newFolder, startPeer } from './implementation.ts';
import { agreeInForms } from './forms.ts';

export const mcpOauthServer: Implementation = {
  id: 'mcp-oauth-server',
  name: 'mcp-oauth-server, memory',
  isInstalled: true,
  async start(place) {
    const [port = 0] = await freePorts(1);
    const directory = await newFolder(place, 'mcp-oauth-server');
    const peer = { script: 'mcp-oauth-server.js', port, directory };
    const { origin, ...started } = await startPeer({ ...peer, metadataPath: METADATA_PATH });
    return {
      ...started,
      origins: [origin],
      // It does not know offline_access: every client registered for refresh tokens gets one.
      scope: 'operations',
      links: [`${origin}/one/mcp`, `${origin}/two/mcp`],
      open: `${origin}/open`,
      agree: agreeInForms,
      stop: started.server.stop,
    };
  },
};
