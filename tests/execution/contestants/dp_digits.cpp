#include <cstring>
#include <iostream>
#include <string>
long long memo[20][2][180];
std::string s;
long long go(int i, bool tight, int sum) {
    if (i == (int)s.size()) return sum;
    auto &m = memo[i][tight][sum];
    if (m != -1) return m;
    m = 0;
    for (int d = 0; d <= (tight ? s[i] - '0' : 9); d++) m += go(i + 1, tight && d == s[i] - '0', sum + d);
    return m;
}
long long f(long long n) {
    if (n < 0) return 0;
    s = std::to_string(n);
    memset(memo, -1, sizeof memo);
    return go(0, true, 0);
}
int main() {
    long long a, b;
    while (std::cin >> a >> b && a != -1) std::cout << f(b) - f(a - 1) << "\n";
}
/* cases
wrong: f(a - 1) >>> f(a)
case: 1 10|100 777|-1 -1 => 46|8655
*/
