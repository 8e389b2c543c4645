// Column charts: a column for each row, in units of the drawing.
import type { ConsoleChart } from './console-values.ts';

const WIDTH = 600;
const HEIGHT = 120;
/** The rest of the space of a row separates it from the next. */
const COLUMN_SHARE = 0.8;

type Rows = ConsoleChart['rows'];
type Bars = ConsoleChart['bars'];

/** The series of a row on top of each other, for numbers that have a sum. */
export function stackedChart(series: string[], rows: Rows): ConsoleChart {
  const highest = Math.max(0, ...rows.map(({ values }) => sumOf(values)));
  const step = WIDTH / Math.max(1, rows.length);
  const bars = rows.flatMap(({ values }, row) => {
    let y = HEIGHT;
    return values.flatMap((value, n) => {
      if (value === 0) return [];
      const height = (value / highest) * HEIGHT;
      y -= height;
      return [{ x: startOf(row, step), y, width: step * COLUMN_SHARE, height, series: n }];
    });
  });
  return chart(series, rows, bars, highest);
}

/** The series of a row side by side. */
export function groupedChart(series: string[], rows: Rows): ConsoleChart {
  const highest = Math.max(0, ...rows.flatMap(({ values }) => values));
  const step = WIDTH / Math.max(1, rows.length);
  const width = (step * COLUMN_SHARE) / Math.max(1, series.length);
  const bars = rows.flatMap(({ values }, row) =>
    values.flatMap((value, n) => {
      if (value === 0) return [];
      const height = (value / highest) * HEIGHT;
      return [{ x: startOf(row, step) + n * width, y: HEIGHT - height, width, height, series: n }];
    }),
  );
  return chart(series, rows, bars, highest);
}

function startOf(row: number, step: number): number {
  return (row + (1 - COLUMN_SHARE) / 2) * step;
}

function chart(series: string[], rows: Rows, bars: Bars, highest: number): ConsoleChart {
  return {
    width: WIDTH,
    height: HEIGHT,
    highest,
    total: sumOf(rows.map(({ values }) => sumOf(values))),
    series,
    bars: bars.map(({ x, y, width, height, series: n }) => ({
      x: rounded(x),
      y: rounded(y),
      width: rounded(width),
      height: rounded(height),
      series: n,
    })),
    rows,
  };
}

function sumOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}

function rounded(length: number): number {
  return Math.round(length * 10) / 10;
}
