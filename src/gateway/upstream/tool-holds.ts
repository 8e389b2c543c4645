// Which tools of an upstream wait for an operator, as the proxy asks it: for lists, for calls and for instructions.
import { type Caller, connectionOf } from '../authenticate.ts';
import type { HoldReason } from '../../upstreams/tool-pins.ts';
import type { ToolDiscovery } from './tool-discovery.ts';

export type ToolHolds = {
  /** Notes a list for a caller, and returns its tools without those that wait, or cannot be read. */
  shown(
    list: { tools: readonly unknown[]; nextCursor?: unknown },
    request: { caller: Caller; startsLists: boolean },
  ): Promise<readonly unknown[]>;
  /** Why a call of the tool is refused. Undefined if it is not. */
  reason(name: string, caller: Caller): HoldReason | undefined;
  /** Changes when tools are held or approved. */
  state(): string;
  /** Notes the instructions for a caller, and returns whether they may be sent. */
  areInstructionsShown(text: string, caller: Caller): Promise<boolean>;
};

export function toolHolds({ pinning, catalog }: ToolDiscovery): ToolHolds {
  const named = () => catalog()?.tools ?? [];
  const isOnlySource = () => catalog()?.needsCredential === true;
  return {
    async shown({ tools, nextCursor }, { caller, startsLists }) {
      const isWhole = startsLists && nextCursor === undefined;
      const about = { isWhole, isContinued: !startsLists, isOnlySource: isOnlySource() };
      const read = await pinning.noteListed(tools, connectionOf(caller), about);
      return pinning.shown(tools, read, connectionOf(caller), named());
    },
    state: () => pinning.holdState(),
    reason: (name, caller) => pinning.held(name, connectionOf(caller), named()),
    async areInstructionsShown(text, caller) {
      const about = { isOnlySource: isOnlySource() };
      await pinning.noteInstructions(text, connectionOf(caller), about);
      return pinning.areInstructionsApproved(text);
    },
  };
}

/** A new tool was never shown, but other programs may know its name. */
const WAITING: Readonly<Record<Exclude<HoldReason, 'unknown'>, string>> = {
  new: 'is new on this server, and an administrator is reviewing it before it can be used',
  changed:
    'was changed on this server, and an administrator is reviewing it before it can be used again',
  twins: 'has almost the name of another tool of this server, and an administrator is reviewing it',
  twice: 'is on this server twice, so that nobody can know which one a call would reach',
};

/** Says what to do, to the model and the person. */
export function heldText(
  tool: string,
  reason: Exclude<HoldReason, 'unknown'>,
  { productName, supportContact }: { productName: string; supportContact?: string | undefined },
): string {
  const contact =
    supportContact === undefined ? `an administrator of ${productName}` : supportContact;
  return `The tool ${tool} ${WAITING[reason]}. Do not call it again now. To know when it can be used, ask ${contact}.`;
}
