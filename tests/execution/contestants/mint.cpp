#include <iostream>
using namespace std;
template <int M> struct Mint {
    int v;
    constexpr Mint(long long x = 0) : v(int((x % M + M) % M)) {}
    Mint &operator+=(Mint o) { v += o.v; if (v >= M) v -= M; return *this; }
    Mint &operator*=(Mint o) { v = int(1LL * v * o.v % M); return *this; }
    friend Mint operator+(Mint a, Mint b) { return a += b; }
    friend Mint operator*(Mint a, Mint b) { return a *= b; }
    Mint pow(long long e) const { Mint r = 1, b = *this; for (; e; e >>= 1, b *= b) if (e & 1) r *= b; return r; }
    Mint inv() const { return pow(M - 2); }
    friend ostream &operator<<(ostream &o, Mint m) { return o << m.v; }
};
using mint = Mint<998244353>;
int main() {
    long long a, b, e;
    cin >> a >> b >> e;
    cout << mint(a) * mint(b).inv() << " " << mint(a).pow(e) << " " << mint(-a) + mint(b) << endl;
}
/* cases
wrong: return pow(M - 2) >>> return pow(M - 1)
case: 1 2 10 => 499122177 1 1
case: 6 3 3 => 2 216 998244350
*/
