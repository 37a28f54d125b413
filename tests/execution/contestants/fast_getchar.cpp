#include <cstdio>
#include <cctype>
inline int read() {
    int x = 0, f = 1; char ch = getchar();
    while (!isdigit(ch)) { if (ch == '-') f = -1; ch = getchar(); }
    while (isdigit(ch)) { x = (x << 1) + (x << 3) + (ch ^ 48); ch = getchar(); }
    return x * f;
}
int a[100010], n, q;
long long c[100010];
#define lowbit(x) ((x) & -(x))
void add(int x, int k) { for (; x <= n; x += lowbit(x)) c[x] += k; }
long long ask(int x) { long long r = 0; for (; x; x -= lowbit(x)) r += c[x]; return r; }
int main() {
    n = read(), q = read();
    for (int i = 1; i <= n; ++i) add(i, read());
    while (q--) {
        int op = read(), x = read(), y = read();
        if (op == 1) add(x, y);
        else printf("%lld\n", ask(y) - ask(x - 1));
    }
    return 0;
}
/* cases
wrong: ask(x - 1) >>> ask(x)
case: 5 4|1 5 4 2 3|1 1 3|2 2 5|1 3 -1|2 1 4 => 14|14
*/
