const fs = require("fs");
var data = fs.readFileSync(0), pos = 0;
function nextInt() {
    while (data[pos] !== 45 && (data[pos] < 48 || data[pos] > 57)) pos++;
    var neg = data[pos] === 45 ? (pos++, true) : false, x = 0;
    while (pos < data.length && data[pos] >= 48 && data[pos] <= 57) x = x * 10 + data[pos++] - 48;
    return neg ? -x : x;
}
var n = nextInt(), k = nextInt(), a = new Int32Array(n), out = [], dq = [];
for (var i = 0; i < n; i++) a[i] = nextInt();
for (i = 0; i < n; i++) {
    while (dq.length && a[dq[dq.length - 1]] <= a[i]) dq.pop();
    dq.push(i);
    if (dq[0] <= i - k) dq.shift();
    if (i >= k - 1) out.push(a[dq[0]]);
}
process.stdout.write(out.join(" ") + "\n");
/* cases
wrong: dq[0] <= i - k >>> dq[0] < i - k
case: 8 3|1 3 -1 -3 5 3 6 7 => 3 3 5 5 6 7
case: 3 2|5 1 2 => 5 2
*/
