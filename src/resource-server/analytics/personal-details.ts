// Tools whose very purpose is a member's contact or payment details.
import { z } from 'zod';
import { CURRENCY } from './data.ts';
import { memberId, requireMember } from './records.ts';
import { tool } from './tool.ts';

export const memberContact = tool({
  name: 'member_contact',
  level: 'admin',
  title: "A member's contact details",
  description: 'The e-mail address and phone number of one member, to get in touch with them.',
  input: z.strictObject({ memberId }),
  run: (dataset, { memberId }) => {
    const { name, email, phone } = requireMember(dataset, memberId);
    return { memberId, name, email, phone };
  },
});

export const paymentDetails = tool({
  name: 'payment_details',
  level: 'full',
  title: "A member's payment details",
  description:
    'How one member pays: bank account, card, and the payments of the year. Every call is recorded.',
  input: z.strictObject({ memberId }),
  run: (dataset, { memberId }) => {
    const { name, method, iban, card } = requireMember(dataset, memberId);
    const history = dataset
      .prepare(
        `SELECT id AS paymentId, kind, cents / 100.0 AS amount, due_on AS dueOn, paid_on AS paidOn
          FROM payment WHERE member_id = ? ORDER BY due_on, id`,
      )
      .all(memberId);
    return { memberId, name, method, iban, card, currency: CURRENCY, history };
  },
});
