// The resources and prompts of the server for the conformance suite, which gives their names and forms.
import {
  acceptedContent,
  type GetPromptResult,
  inputRequired,
  type InputRequiredResult,
  type ContentBlock,
  ProtocolError,
  ProtocolErrorCode,
} from '@modelcontextprotocol/server';

/** A PNG of one pixel. */
export const PIXEL =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

export const RESOURCES = [
  { uri: 'test://static-text', name: 'static-text', mimeType: 'text/plain' },
  { uri: 'test://static-binary', name: 'static-binary', mimeType: 'image/png' },
  { uri: 'test://watched-resource', name: 'watched-resource', mimeType: 'text/plain' },
];

export const RESOURCE_TEMPLATES = [
  {
    uriTemplate: 'test://template/{id}/data',
    name: 'template',
    mimeType: 'application/json',
  },
];

export function findResource(uri: string) {
  const { mimeType } = RESOURCES.find((resource) => resource.uri === uri) ?? {};
  if (mimeType === 'image/png') return { uri, mimeType, blob: PIXEL };
  if (mimeType !== undefined) return { uri, mimeType, text: `The text of ${uri}` };
  const [, id] = /^test:\/\/template\/([^/]+)\/data$/.exec(uri) ?? [];
  if (id === undefined) return undefined;
  return { uri, mimeType: 'application/json', text: JSON.stringify({ id }) };
}

type Prompt = {
  name: string;
  /** Names of its arguments. */
  given?: readonly string[];
  write(
    given: Record<string, string>,
    responses: Record<string, unknown> | undefined,
  ): GetPromptResult | InputRequiredResult;
};

export const PROMPTS: readonly Prompt[] = [
  { name: 'test_simple_prompt', write: () => says({ type: 'text', text: 'A simple prompt' }) },
  {
    name: 'test_prompt_with_arguments',
    given: ['arg1', 'arg2'],
    write: ({ arg1, arg2 }) => says({ type: 'text', text: `First ${arg1}, then ${arg2}` }),
  },
  {
    name: 'test_prompt_with_embedded_resource',
    given: ['resourceUri'],
    write: ({ resourceUri: uri = '' }) =>
      says({ type: 'resource', resource: { uri, mimeType: 'text/plain', text: 'Embedded' } }),
  },
  {
    name: 'test_prompt_with_image',
    write: () => says({ type: 'image', data: PIXEL, mimeType: 'image/png' }),
  },
  {
    name: 'test_input_required_result_prompt',
    write(_given, responses) {
      const answer = acceptedContent(responses, 'user_context');
      if (answer) return says({ type: 'text', text: `In the context of ${answer['context']}` });
      return inputRequired({
        inputRequests: {
          user_context: inputRequired.elicit({
            message: 'In which context?',
            requestedSchema: {
              type: 'object',
              properties: { context: { type: 'string' } },
              required: ['context'],
            },
          }),
        },
      });
    },
  },
];

export function findPrompt(name: string): Prompt {
  const found = PROMPTS.find((prompt) => prompt.name === name);
  if (!found) throw new ProtocolError(ProtocolErrorCode.InvalidParams, `no prompt ${name}`);
  return found;
}

function says(...content: ContentBlock[]): GetPromptResult {
  return { messages: content.map((block) => ({ role: 'user', content: block })) };
}
