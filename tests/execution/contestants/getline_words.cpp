#include <iostream>
#include <sstream>
#include <string>
#include <set>
#include <algorithm>
using namespace std;
int main() {
    string line;
    int no = 0;
    while (getline(cin, line)) {
        ++no;
        stringstream ss(line);
        set<string> seen;
        string w;
        while (ss >> w) {
            transform(w.begin(), w.end(), w.begin(), ::tolower);
            w.erase(remove_if(w.begin(), w.end(), [](char c) { return !isalpha((unsigned char)c); }), w.end());
            if (!w.empty()) seen.insert(w);
        }
        cout << no << ": " << seen.size();
        for (const string &x : seen) cout << " " << x;
        cout << "\n";
    }
}
/* cases
wrong: ::tolower >>> ::toupper
case: The cat, the dog.||A a? b! => 1: 3 cat dog the|2: 0|3: 2 a b
*/
