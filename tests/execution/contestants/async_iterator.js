const rl = require('node:readline').createInterface({ input: process.stdin });
(async () => {
  const it = rl[Symbol.asyncIterator]();
  const next = async () => (await it.next()).value;
  const q = Number(await next());
  const heap = [];
  for (let i = 0; i < q; i++) {
    const [op, x] = (await next()).split(' ');
    if (op === 'push') { heap.push(+x); heap.sort((a, b) => a - b); }
    else console.log(heap.length ? heap.shift() : 'empty');
  }
  rl.close();
})();
/* cases
wrong: heap.shift() >>> heap.pop()
case: 5|push 10|push 9|pop|pop|pop => 9|10|empty
*/
