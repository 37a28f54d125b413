#include <iostream>
#include <cstring>
#define INF 0x3f3f3f3f
#define MAXN 105
using namespace std;
int d[MAXN][MAXN];
int main()
{
	int n, m;
	cin >> n >> m;
	memset(d, 0x3f, sizeof(d));
	for (int i = 1; i <= n; i++) d[i][i] = 0;
	while (m--)
	{
		int a, b, c;
		cin >> a >> b >> c;
		d[a][b] = min(d[a][b], c);
	}
	for (int k = 1; k <= n; k++)
		for (int i = 1; i <= n; i++)
			for (int j = 1; j <= n; j++)
				d[i][j] = min(d[i][j], d[i][k] + d[k][j]);
	for (int i = 1; i <= n; i++, cout << endl)
		for (int j = 1; j <= n; j++)
			cout << (d[i][j] >= INF / 2 ? -1 : d[i][j]) << " ";
	return 0;
}
/* cases
wrong: d[a][b] = min(d[a][b], c) >>> d[a][b] = c
case: 3 4|1 2 5|2 3 2|1 2 4|1 2 9 => 0 4 6|-1 0 2|-1 -1 0
*/
