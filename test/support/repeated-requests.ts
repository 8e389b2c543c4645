/** Sends the requests one after another and returns their statuses. */
export async function statuses(requests: (() => Promise<Response>)[]): Promise<number[]> {
  const found: number[] = [];
  for (const request of requests) {
    const response = await request();
    await response.text();
    found.push(response.status);
  }
  return found;
}

/** `request` receives the index, from 0. */
export const times = (count: number, request: (n: number) => Promise<Response>) =>
  Array.from({ length: count }, (_, n) => () => request(n));
