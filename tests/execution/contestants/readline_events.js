const readline = require('readline');
const rl = readline.createInterface({ input: process.stdin, output: process.stdout, terminal: false });
const rows = [];
rl.on('line', (line) => rows.push(line));
rl.on('close', () => {
  const n = +rows[0];
  const count = new Map();
  for (let i = 1; i <= n; i++) count.set(rows[i], (count.get(rows[i]) || 0) + 1);
  const best = [...count].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
  best.forEach(([w, c]) => console.log(`${w} ${c}`));
});
/* cases
wrong: b[1] - a[1] >>> a[1] - b[1]
case: 4|tea|milk|tea|cola => tea 2|cola 1|milk 1
*/
