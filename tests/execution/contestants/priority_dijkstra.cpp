#include <bits/stdc++.h>
using namespace std;
using ll = long long;
const ll INF = 1e18;

int main() {
    ios::sync_with_stdio(0); cin.tie(0);
    int n, m, s;
    cin >> n >> m >> s;
    vector<vector<pair<int, ll>>> g(n);
    for (int i = 0, u, v, w; i < m && cin >> u >> v >> w; i++) g[u].emplace_back(v, w);
    vector<ll> d(n, INF);
    priority_queue<pair<ll, int>, vector<pair<ll, int>>, greater<>> pq;
    pq.emplace(d[s] = 0, s);
    while (!pq.empty()) {
        auto [du, u] = pq.top();
        pq.pop();
        if (du != d[u]) continue;
        for (auto &[v, w] : g[u])
            if (du + w < d[v]) pq.emplace(d[v] = du + w, v);
    }
    for (ll x : d) cout << (x == INF ? "INF" : to_string(x)) << "\n";
}
/* cases
wrong: du + w < d[v] >>> d[v] == INF
case: 4 5 0|0 1 4|0 2 1|2 1 2|1 3 1|3 0 1 => 0|3|1|4
case: 2 0 1 => INF|0
*/
