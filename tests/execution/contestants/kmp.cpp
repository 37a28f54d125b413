#include <iostream>
#include <vector>
#include <string>
#include <string_view>
using namespace std;
static vector<int> prefix(string_view s) {
    vector<int> pi(s.size());
    for (size_t i = 1; i < s.size(); i++) {
        int j = pi[i - 1];
        while (j && s[i] != s[j]) j = pi[j - 1];
        if (s[i] == s[j]) ++j;
        pi[i] = j;
    }
    return pi;
}
int main() {
    string t, p;
    getline(cin, t); getline(cin, p);
    auto pi = prefix(p + '\x01' + t);
    for (size_t i = p.size(); i < pi.size(); i++)
        if (pi[i] == (int)p.size()) cout << i - 2 * p.size() << ' ';
    cout << '\n';
}
/* cases
wrong: j = pi[j - 1]; >>> j = 0;
case: aabaabaaab|aaba => 0 3
case: aaabaaab|aab => 1 5
*/
