#include <bits/stdc++.h>
using namespace std;
mt19937_64 rng(chrono::steady_clock::now().time_since_epoch().count());
unsigned long long mulmod(unsigned long long a, unsigned long long b, unsigned long long m) { return (unsigned __int128)a * b % m; }
unsigned long long power(unsigned long long b, unsigned long long e, unsigned long long m) {
    unsigned long long r = 1;
    for (b %= m; e; e >>= 1, b = mulmod(b, b, m)) if (e & 1) r = mulmod(r, b, m);
    return r;
}
bool prime(unsigned long long n) {
    if (n < 4) return n > 1;
    if (n % 2 == 0) return false;
    int s = __builtin_ctzll(n - 1);
    for (int i = 0; i < 20; i++) {
        auto x = power(uniform_int_distribution<unsigned long long>(2, n - 2)(rng), n - 1 >> s, n);
        if (x == 1 || x == n - 1) continue;
        int r = 1;
        for (; r < s; r++) if ((x = mulmod(x, x, n)) == n - 1) break;
        if (r >= s) return false;
    }
    return true;
}
int main() { unsigned long long n; while (cin >> n) cout << (prime(n) ? "YES" : "NO") << '\n'; }
/* cases
wrong: if (r >= s) return false; >>> if (r > s) return false;
case: 2 9 561 1000000007 999999999999999989 18446744073709551557 => YES|NO|NO|YES|YES|YES
*/
