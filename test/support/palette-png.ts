// Rewrites a PNG with a palette of 256 colours, which makes a screenshot of text about a third of its size.
import { crc32, deflateSync } from 'node:zlib';
import type { Browser } from 'playwright-core';

const SIGNATURE = Buffer.from('89504e470d0a1a0a', 'hex');
/** Colours that are equal in these bits share one entry: the most frequent of them. */
const KEPT_BITS = 0xf8f8f8;
const MAX_COLOURS = 256;

export async function withPalette(browser: Browser, png: Buffer): Promise<Buffer> {
  const { width, height, pixels } = await decode(browser, png);
  const colours = Array.from({ length: width * height }, (_, i) => pixels.readUIntBE(i * 4, 3));
  const palette = paletteOf(colours);
  if (palette.size > MAX_COLOURS) throw new Error(`the picture has ${palette.size} colours`);
  const indexes = new Map([...palette.keys()].map((key, index) => [key, index]));
  // Each row begins with the number of its filter: 0, none.
  const rows = Buffer.alloc((width + 1) * height);
  for (const [i, colour] of colours.entries())
    rows[i + Math.floor(i / width) + 1] = indexes.get(colour & KEPT_BITS) ?? 0;
  const entries = Buffer.alloc(palette.size * 3);
  for (const [index, colour] of [...palette.values()].entries())
    entries.writeUIntBE(colour, index * 3, 3);
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  // Eight bits for each pixel, which are an index into the palette.
  header.set([8, 3], 8);
  return Buffer.concat([
    SIGNATURE,
    chunk('IHDR', header),
    chunk('PLTE', entries),
    chunk('IDAT', deflateSync(rows, { level: 9 })),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}

function paletteOf(colours: readonly number[]): Map<number, number> {
  const counts = new Map<number, number>();
  for (const colour of colours) counts.set(colour, (counts.get(colour) ?? 0) + 1);
  const rarestFirst = [...counts].toSorted(([, a], [, b]) => a - b);
  return new Map(rarestFirst.map(([colour]) => [colour & KEPT_BITS, colour]));
}

type Picture = { width: number; height: number; pixels: Buffer };

async function decode(browser: Browser, png: Buffer): Promise<Picture> {
  const page = await browser.newPage();
  const { width, height, text } = await page.evaluate<{
    width: number;
    height: number;
    text: string;
  }>(`(async () => {
    const response = await fetch('data:image/png;base64,${png.toString('base64')}');
    const picture = await createImageBitmap(await response.blob());
    const { width, height } = picture;
    const context = new OffscreenCanvas(width, height).getContext('2d');
    context.drawImage(picture, 0, 0);
    const { data } = context.getImageData(0, 0, width, height);
    return { width, height, text: new Uint8Array(data.buffer).toBase64() };
  })()`);
  await page.close();
  return { width, height, pixels: Buffer.from(text, 'base64') };
}

function chunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data]);
  const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(data.length);
  sum.writeUInt32BE(crc32(body));
  return Buffer.concat([length, body, sum]);
}
