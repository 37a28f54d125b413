#include <bits/stdc++.h>
using namespace std;
template <class T> bool ckmin(T &a, const T &b) { return b < a ? a = b, 1 : 0; }
template <typename... T> void read(T &...args) { ((cin >> args), ...); }
template <typename... T> void write(T &&...args) { ((cout << args << ' '), ...) << '\n'; }
int main() {
    int n, x; read(n, x);
    vector<int> c(n), dp(x + 1, INT_MAX / 2);
    for (auto &&e : c) read(e);
    dp[0] = 0;
    for (int i = 1; i <= x; ++i) for (int e : c) if (e <= i) ckmin(dp[i], dp[i - e] + 1);
    write(dp[x] >= INT_MAX / 2 ? -1 : dp[x], count_if(begin(dp), end(dp), [](int v) { return v < INT_MAX / 2; }));
}
/* cases
wrong: if (e <= i) >>> if (e < i)
case: 3 11|1 5 7 => 3 12
case: 2 3|2 4 => -1 2
*/
