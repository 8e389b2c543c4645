// The same request many times over, and what it was answered with.

/** Every request waits for the answer to the one before. */
export async function statuses(requests: (() => Promise<Response>)[]): Promise<number[]> {
  const found: number[] = [];
  for (const request of requests) {
    const response = await request();
    await response.text();
    found.push(response.status);
  }
  return found;
}

/** `request` is told which one it is, from 0. */
export const times = (count: number, request: (n: number) => Promise<Response>) =>
  Array.from({ length: count }, (_, n) => () => request(n));
