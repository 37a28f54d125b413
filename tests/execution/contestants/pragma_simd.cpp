#pragma GCC optimize("O3,unroll-loops")
#pragma GCC target("avx2,bmi,bmi2,popcnt,lzcnt")
#include <bits/stdc++.h>
using namespace std;
constexpr int N = 1 << 18;
unsigned a[N];
int main() {
    cin.tie(nullptr)->sync_with_stdio(false);
    int n; unsigned x;
    cin >> n >> x;
    for (int i = 0; i < n; i++) a[i] = i * 2654435761u ^ x;
    unsigned long long pop = 0;
    for (int i = 0; i < n; i++) pop += __builtin_popcount(a[i]);
    cout << pop << '\n';
}
/* cases
wrong: 2654435761u ^ x >>> 2654435761u | x
case: 3 5 => 41
*/
