#include <array>
#include <iostream>
using namespace std;
using Mat = array<array<unsigned long long, 3>, 3>;
static constexpr unsigned long long P = 1000000007ULL;
Mat operator*(const Mat &a, const Mat &b) {
    Mat c{};
    for (int i = 0; i < 3; i++) for (int j = 0; j < 3; j++) for (int k = 0; k < 3; k++) (c[i][j] += a[i][k] * b[k][j]) %= P;
    return c;
}
int main() {
    unsigned long long n; cin >> n;
    Mat r{{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}}, t{{{1, 1, 1}, {1, 0, 0}, {0, 1, 0}}};
    for (; n; n /= 2, t = t * t) if (n % 2) r = r * t;
    cout << r[0][0] << '\n';
}
/* cases
wrong: t{{{1, 1, 1} >>> t{{{1, 1, 0}
case: 5 => 13
case: 10 => 274
*/
