const fs = require('fs');
const stack = [];
class StackError extends Error { constructor(msg) { super(msg); this.name = 'StackError'; } }
const ops = { push: (x) => stack.push(Number(x)), pop: () => { if (!stack.length) throw new StackError('underflow'); return stack.pop(); }, neg() { stack.push(-this.pop()); } };
for (const line of fs.readFileSync(0, 'utf8').split('\n')) {
  const [op, arg] = line.trim().split(/ +/);
  if (!op) continue;
  try {
    if (!(op in ops)) throw new TypeError(`unknown ${op}`);
    ops[op](arg);
  } catch (e) {
    if (e instanceof StackError) console.log(`${e.name}: ${e.message}`);
    else console.log(String(e));
  }
}
console.log(JSON.stringify({ stack, n: stack.length }));
/* cases
wrong: -this.pop() >>> this.pop()
case: push 3|neg|pop|pop|jump 2|push 1 => StackError: underflow|TypeError: unknown jump|{"stack":[1],"n":1}
case: push 3|neg => {"stack":[-3],"n":1}
*/
