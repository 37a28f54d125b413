const main = () => {
  const [a, b] = require('fs').readFileSync(0, 'ascii').trim().split(' ');
  let carry = 0, out = '';
  for (let i = 1; i <= Math.max(a.length, b.length); i++) {
    const s = (+a[a.length - i] || 0) + (+b[b.length - i] || 0) + carry;
    out = (s % 10) + out;
    carry = s > 9 ? 1 : 0;
  }
  console.log((carry || '') + out);
  process.exit();
};
if (require.main === module) main();
/* cases
wrong: s > 9 >>> s > 10
case: 999 1 => 1000
case: 55 45 => 100
*/
