#include <iostream>
#include <vector>
#include <string>
#include <algorithm>
struct Big {
    std::vector<int> d;
    Big(const std::string &s) { for (auto it = s.rbegin(); it != s.rend(); ++it) d.push_back(*it - '0'); }
    Big operator*(const Big &o) const {
        Big r("");
        r.d.assign(d.size() + o.d.size(), 0);
        for (size_t i = 0; i < d.size(); i++) for (size_t j = 0; j < o.d.size(); j++) {
            r.d[i + j] += d[i] * o.d[j];
            r.d[i + j + 1] += r.d[i + j] / 10;
            r.d[i + j] %= 10;
        }
        while (r.d.size() > 1 && !r.d.back()) r.d.pop_back();
        return r;
    }
};
std::ostream &operator<<(std::ostream &o, const Big &b) { for (auto i = b.d.size(); i-- > 0;) o << b.d[i]; return o; }
std::istream &operator>>(std::istream &i, Big &b) { std::string s; i >> s; b = Big(s); return i; }
int main() {
    Big a("0"), b("0");
    while (std::cin >> a >> b) std::cout << a * b << std::endl;
}
/* cases
wrong: r.d[i + j] %= 10; >>> r.d[i + j] %= 9;
case: 12345678901234567890 98765432109876543210|0 55 => 1219326311370217952237463801111263526900|0
*/
