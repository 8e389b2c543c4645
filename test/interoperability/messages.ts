// MCP messages of the 2025 revisions, for clients that are not MCP libraries.

export const HEADERS = {
  accept: 'application/json, text/event-stream',
  'content-type': 'application/json',
};

/** A tool for every level, and one that requires the level `admin`. */
export const OVERVIEW = { name: 'club_overview', arguments: {} };
export const CONTACT = { name: 'member_contact', arguments: { memberId: 'M0001' } };

export function message(method: string, params: object): string {
  return JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
}

export function toolCall(tool: object) {
  return {
    headers: { ...HEADERS, 'mcp-protocol-version': '2025-11-25' },
    body: message('tools/call', tool),
  };
}
