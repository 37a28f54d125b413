#include <functional>
#include <iostream>
#include <vector>
using namespace std;
int main() {
    int n; cin >> n;
    vector<vector<int>> adj(n);
    for (int i = 1; i < n; ++i) { int p; cin >> p; adj[p - 1].push_back(i); }
    vector<int> sub(n, 0);
    auto dfs = [&](auto &&self, int u) -> void {
        for (int v : adj[u]) { self(self, v); sub[u] += sub[v] + 1; }
    };
    dfs(dfs, 0);
    function<int(int)> height = [&](int u) { int h = 0; for (int v : adj[u]) h = max(h, 1 + height(v)); return h; };
    for (int i = 0; i < n; ++i) cout << sub[i] << (i + 1 < n ? ' ' : '\n');
    cout << height(0);
}
/* cases
wrong: sub[v] + 1 >>> sub[v]
case: 5|1 1 2 3 => 4 1 1 0 0|2
*/
