const input = require('fs').readFileSync(0, 'utf8').trim().split('\n').map((r) => r.split(' ').map(Number));
const [[n], ...m] = input;
const transpose = (a) => a[0].map((_, c) => a.map((r) => r[c]));
const rotate = (a) => transpose([...a].reverse());
const r = rotate(m.slice(0, n));
console.log(r.map((x) => x.join(' ')).join('\n'));
console.log(Math.max(...r.flat()), r.flatMap((x) => x.slice(-1)).reduce((a, b) => a + b));
/* cases
wrong: [...a].reverse() >>> [...a]
case: 2|1 2|3 4 => 3 1|4 2|4 3
*/
