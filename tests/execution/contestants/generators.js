function* primes() {
  const found = [];
  for (let n = 2; ; n++) if (found.every((p) => p * p > n || n % p)) { found.push(n); yield n; }
}
const take = (n, it) => { const out = []; for (const x of it) { if (out.length === n) break; out.push(x); } return out; };
const n = Number(require('fs').readFileSync(0, 'utf8'));
const ps = take(n, primes());
console.log(ps.join(','));
console.log(Object.entries(Object.fromEntries(ps.map((p, i) => [`p${i}`, p]))).at(-1).join('='));
/* cases
wrong: p * p > n >>> p * p >= n
case: 10 => 2,3,5,7,11,13,17,19,23,29|p9=29
*/
