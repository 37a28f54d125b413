process.stdin.resume();
process.stdin.setEncoding('utf-8');
let inputString = '';
let currentLine = 0;
process.stdin.on('data', inputStdin => { inputString += inputStdin; });
process.stdin.on('end', _ => {
  inputString = inputString.trim().split('\n').map(string => string.trim());
  main();
});
function readline() { return inputString[currentLine++]; }

function main() {
  const n = +readline();
  const s = readline();
  let depth = 0, ok = true, most = 0;
  for (let i = 0; i < n; i++) {
    depth += s[i] === '(' ? 1 : -1;
    if (depth < 0) ok = false;
    most = Math.max(most, depth);
  }
  console.log(ok && depth === 0 ? most : 'NO');
}
/* cases
wrong: if (depth < 0) ok = false; >>> if (depth < -9) ok = false;
case: 6|(()()) => 2
case: 2|)( => NO
*/
