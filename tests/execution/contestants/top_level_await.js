import readline from 'readline/promises';
import { stdin as input } from 'process';
const rl = readline.createInterface({ input });
const lines = [];
for await (const line of rl) lines.push(line);
const wait = (ms) => new Promise((r) => setTimeout(r, ms));
await wait(5);
const grid = lines.slice(1).map((l) => [...l]);
let islands = 0;
const flood = (r, c) => {
  if (grid[r]?.[c] !== '1') return;
  grid[r][c] = '0';
  flood(r + 1, c); flood(r - 1, c); flood(r, c + 1); flood(r, c - 1);
};
grid.forEach((row, r) => row.forEach((v, c) => { if (v === '1') { islands++; flood(r, c); } }));
console.log(islands);
/* cases
wrong: flood(r - 1, c); >>> flood(r, c);
case: 3|1101|0001|1011 => 3
case: 3|101|101|111 => 1
*/
