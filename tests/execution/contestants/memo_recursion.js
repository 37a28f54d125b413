const [s, t] = require('fs').readFileSync(0).toString().trim().split('\n').map((x) => x.trim());
const memo = {};
function dist(i, j) {
  const key = i + ':' + j;
  if (key in memo) return memo[key];
  let r;
  if (i === 0) r = j;
  else if (j === 0) r = i;
  else r = Math.min(dist(i - 1, j) + 1, dist(i, j - 1) + 1, dist(i - 1, j - 1) + (s[i - 1] === t[j - 1] ? 0 : 1));
  return (memo[key] = r);
}
console.log(dist(s.length, t.length));
/* cases
wrong: dist(i, j - 1) + 1 >>> dist(i, j - 1) + 2
case: kitten|sitting => 3
case: a|abc => 2
*/
