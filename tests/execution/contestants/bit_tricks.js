const [n, ...a] = require('fs').readFileSync(0, 'utf8').match(/\d+/g).map(Number);
let best = 0;
for (let mask = 0; mask < 1 << n; mask++) {
  let x = 0, c = 0;
  for (let i = 0; i < n; i++) if (mask >> i & 1) { x ^= a[i]; c++; }
  if (c && x > best) best = x;
}
console.log(best, (best >>> 0).toString(2).padStart(8, '0'), Number.MAX_SAFE_INTEGER);
/* cases
wrong: x ^= a[i] >>> x |= a[i]
case: 3|5 6 5 => 6 00000110 9007199254740991
*/
