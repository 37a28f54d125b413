const rl = require('readline').createInterface({ input: process.stdin, crlfDelay: Infinity });
async function main() {
  let sum = 0, n = 0;
  for await (const line of rl) {
    if (!line.trim()) continue;
    n++;
    sum += line.split(',').map(parseFloat).reduce((a, b) => a + b, 0);
  }
  console.log((sum / n).toFixed(2), n);
}
main().catch((e) => { console.error(e); process.exit(1); });
/* cases
wrong: sum / n >>> sum
case: 1.5,2|3.25||4 => 3.58 3
*/
