#include <cstdio>
#include <algorithm>
static char buf[1 << 20], *p1 = buf, *p2 = buf;
#define gc() (p1 == p2 && (p2 = (p1 = buf) + fread(buf, 1, 1 << 20, stdin), p1 == p2) ? EOF : *p1++)
template <class T> void rd(T &x) {
    x = 0; bool f = 0; int c = gc();
    for (; c < '0' || c > '9'; c = gc()) f |= c == '-';
    for (; c >= '0' && c <= '9'; c = gc()) x = x * 10 + (c & 15);
    if (f) x = -x;
}
template <class T, class... A> void rd(T &x, A &...a) { rd(x); rd(a...); }
int main() {
    int n, lo, hi; rd(n, lo, hi);
    long long s = 0;
    for (int i = 0, x; i < n; i++) { rd(x); s += std::clamp(x, lo, hi); }
    printf("%lld", s);
}
/* cases
wrong: std::clamp(x, lo, hi) >>> std::min(x, hi)
case: 4 0 10|-5 3 12 10 => 23
*/
