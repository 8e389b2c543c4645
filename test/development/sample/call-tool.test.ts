import { expect } from 'chai';
import { isAtLeast } from '../../../src/permission-levels.ts';
import { DEFAULT_LEVELS, LEVELS } from '../../support/levels.ts';
import type { Level } from '../../../src/permission-levels.ts';
import type { Caller } from '../../../src/gateway/authenticate.ts';
import { callBody, callerWith, failureOf, post, useMcp } from './mcp-host.ts';
import { SAMPLE_CALLS } from './sample-calls.ts';

const PERSONAL: Record<string, Level> = {
  name: 'operations',
  email: 'admin',
  phone: 'admin',
  iban: 'full',
  card: 'full',
};

describe('tool calls of the sample', () => {
  const { dataset, serve, connect, connectFirst } = useMcp();

  const people = [
    ...dataset.prepare('SELECT name, email, phone, iban, card FROM member').all(),
    ...dataset.prepare('SELECT name, email, phone FROM staff').all(),
  ];

  describe('results', () => {
    for (const level of LEVELS.filter((each) => each !== 'full')) {
      it(`a result at ${level} has no personal field of a higher level, neither name nor value`, async () => {
        const { url } = await serve(callerWith(level, 'full'));
        const hidden = Object.entries(PERSONAL).filter(
          ([, needed]) => !isAtLeast(DEFAULT_LEVELS, level, needed),
        );
        for (const { tool, given } of SAMPLE_CALLS) {
          const text = await (await post(url, callBody(tool.name, given))).text();
          for (const [field] of hidden) {
            expect(text, tool.name).to.not.match(new RegExp(`"${field}\\\\*":`));
            const values = people.flatMap((person) => person[field] ?? []);
            expect(
              values.filter((value) => text.includes(String(value))),
              tool.name,
            ).to.deep.equal([]);
          }
        }
      });
    }

    it('a result has the personal fields of its level, as structured content and as JSON text', async () => {
      const shown = {
        analytics: 'club_overview',
        operations: 'find_members',
        admin: 'member_contact',
        full: 'payment_details',
      };
      const given = {
        find_members: { name: 'Amara Abend' },
        member_contact: { memberId: 'M0001' },
        payment_details: { memberId: 'M0001' },
      };
      const [amara] = people;
      for (const level of LEVELS) {
        const name = shown[level];
        const client = await connect((await serve(callerWith(level))).url);
        const result = await client.callTool({
          name,
          arguments: { ...given[name as keyof typeof given] },
        });
        const [content] = result.content;
        expect(content).to.deep.equal({
          type: 'text',
          text: JSON.stringify(result.structuredContent),
        });
        for (const [field, needed] of Object.entries(PERSONAL)) {
          if (needed === level)
            expect(JSON.stringify(result), field).to.include(String(amara?.[field]));
        }
      }
    });

    it('clients of every revision get the same result', async () => {
      const { url } = await serve(callerWith('operations'));
      const [first, legacy, modern] = [
        await connectFirst(url),
        await connect(url, 'legacy'),
        await connect(url),
      ];
      for (const { tool, given } of SAMPLE_CALLS) {
        const call = { name: tool.name, arguments: given };
        const { content, structuredContent, isError } = await modern.callTool(call);
        for (const other of [await first.callTool(call), await legacy.callTool(call)]) {
          expect(other).to.deep.include({ content });
          expect(other.structuredContent).to.deep.equal(structuredContent);
          expect(other.isError).to.equal(isError);
        }
      }
    });

    it('concurrent callers of several levels each get their own level', async () => {
      const admin = await serve(callerWith('admin'));
      const operations = await serve(callerWith('operations'));
      const texts = await Promise.all(
        Array.from({ length: 20 }, async (_, index) => {
          const { url } = index % 2 ? admin : operations;
          return (await post(url, callBody('find_members', {}))).text();
        }),
      );
      const withAddresses = texts.map((text) => text.includes('@example.com'));
      expect(withAddresses).to.deep.equal(texts.map((_, index) => index % 2 === 1));
    });

    it('groups are suppressed at analytics and complete at operations', async () => {
      const call = { name: 'revenue_by', arguments: { by: 'method' } };
      const low = await (await connect((await serve(callerWith('analytics'))).url)).callTool(call);
      const cheque = {
        group: 'cheque',
        people: null,
        payments: null,
        revenue: null,
        suppressed: true,
      };
      expect((low.structuredContent as Record<string, unknown>).groups).to.deep.include(cheque);
      const high = await (
        await connect((await serve(callerWith('operations'))).url)
      ).callTool(call);
      expect(JSON.stringify(high.structuredContent)).to.include('"group":"cheque","people":3');
    });
  });

  describe('refusals', () => {
    async function refusal(
      caller: Caller,
      call: { name: string; arguments?: Record<string, unknown> },
    ) {
      const client = await connect((await serve(caller)).url);
      const result = await client.callTool(call);
      expect(result).to.include({ isError: true }).and.not.have.property('structuredContent');
      return JSON.stringify(result.content);
    }
    const details = { name: 'payment_details', arguments: { memberId: 'M0001' } };

    it("a tool above the connector's level is a tool error that says whom to ask", async () => {
      const text = await refusal(callerWith('operations', 'admin'), details);
      expect(text).to.match(
        /Ask an administrator of Gatehouse for a connect link with the level full/,
      );
    });

    it("a tool above a minted token's level is a tool error that says whom to ask", async () => {
      const text = await refusal(callerWith('admin', 'admin', true), details);
      expect(text).to.match(
        /Ask an administrator of Gatehouse for a token minted with the level full/,
      );
    });

    it('a tool that a step-up could reach is refused too', async () => {
      const text = await refusal(callerWith('analytics', 'full'), details);
      expect(text).to.include('needs the permission level full');
    });

    it('only the calls of a batch that are above the level are refused', async () => {
      const { url } = await serve(callerWith('operations', 'admin'));
      const batch = [
        callBody('payment_details', { memberId: 'M0001' }, 1),
        callBody('find_members', {}, 2),
      ];
      const text = await (await post(url, batch)).text();
      const messages = text.matchAll(/^data: (.+)$/gm).map(([, data]) => JSON.parse(data ?? ''));
      const errors = new Map(messages.map(({ id, result }) => [id, result.isError === true]));
      expect(errors).to.deep.equal(
        new Map([
          [1, true],
          [2, false],
        ]),
      );
    });

    it('invalid arguments are refused by name', async () => {
      const wrong = { name: 'member_visits', arguments: { memberId: 'Amara' } };
      expect(await refusal(callerWith('operations'), wrong)).to.include('memberId');
    });

    it('an unknown member number is refused with a hint where to find one', async () => {
      const unknown = { name: 'member_visits', arguments: { memberId: 'M9999' } };
      expect(await refusal(callerWith('operations'), unknown)).to.include('find_members');
    });

    it('an unknown tool is a JSON-RPC error', async () => {
      const client = await connect((await serve(callerWith('full'))).url);
      const error = await failureOf(client.callTool({ name: 'drop_tables' }));
      expect(error).to.include({ code: -32602 });
    });
  });
});
