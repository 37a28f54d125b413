'use strict';
const input = require('fs').readFileSync('/dev/stdin').toString().split(/\s+/).filter(Boolean).map(BigInt);
const [n, ...a] = input;
let s = 0n, prod = 1n;
for (const x of a) { s += x; prod *= x; }
console.log(String(s));
console.log(prod.toString());
console.log(BigInt.asUintN(64, prod) === prod);
/* cases
wrong: prod *= x >>> prod = x
case: 3|99999999999 2 88888888888 => 188888888889|17777777777422222222224|false
case: 2|3 4 => 7|12|true
*/
