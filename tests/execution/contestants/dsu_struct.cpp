#include <cstdio>
#include <numeric>
#include <vector>

struct DSU {
    std::vector<int> p, sz;
    int comps;
    explicit DSU(int n) : p(n), sz(n, 1), comps(n) { std::iota(p.begin(), p.end(), 0); }
    int find(int v) { return v == p[v] ? v : p[v] = find(p[v]); }
    bool unite(int a, int b) {
        a = find(a), b = find(b);
        if (a == b) return false;
        if (sz[a] < sz[b]) std::swap(a, b);
        p[b] = a;
        sz[a] += sz[b];
        --comps;
        return true;
    }
};

int main() {
    int n, m;
    if (scanf("%d%d", &n, &m) != 2) return 1;
    DSU d(n);
    int biggest = 1;
    while (m--) {
        int a, b;
        scanf("%d%d", &a, &b);
        d.unite(--a, --b);
        biggest = std::max(biggest, d.sz[d.find(a)]);
        printf("%d %d\n", d.comps, biggest);
    }
}
/* cases
wrong: sz[a] += sz[b]; >>> sz[a] += 1;
case: 5 3|1 2|3 4|4 1 => 4 2|3 2|2 4
*/
