const lines = require('fs').readFileSync(0, 'utf8').trim().split('\n');
let p = 0;
let t = parseInt(lines[p++]);
while (t--) {
  const [n, k] = lines[p++].split(' ').map(Number);
  const a = lines[p++].split(' ').map(Number).sort((x, y) => x - y);
  let ans = 0;
  for (let i = 0; i + k - 1 < n; i++) ans = i === 0 ? a[k - 1] - a[0] : Math.min(ans, a[i + k - 1] - a[i]);
  console.log(ans);
}
/* cases
wrong: (x, y) => x - y >>> (x, y) => y - x
case: 1|5 3|10 1 9 30 7 => 3
*/
