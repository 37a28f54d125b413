const fs = require('fs');
const file = process.env.ONLINE_JUDGE ? 0 : './local_input.txt';
const [h, ...rest] = fs.readFileSync(file, 'utf8').trim().split('\n');
const [n, w] = h.split(' ').map(Number);
const words = rest.join(' ').split(' ').slice(0, n);
const out = words.reduce((acc, x) => {
  const last = acc[acc.length - 1];
  if (last !== undefined && (last + ' ' + x).length <= w) acc[acc.length - 1] = last + ' ' + x;
  else acc.push(x);
  return acc;
}, []);
for (const l of out) console.log(l.padStart(w, '.'));
/* cases
wrong: <= w >>> < w
case: 5 7|the cat sat on a => the cat|.sat on|......a
*/
