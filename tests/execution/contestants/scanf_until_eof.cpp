#include <stdio.h>
#include <string.h>
#include <stdlib.h>
int cmp(const void *a, const void *b) { return strcmp(*(const char **)a, *(const char **)b); }
int main() {
    char *w[100], b[100]; int n = 0;
    while (scanf("%99s", b) != EOF) w[n++] = strdup(b);
    qsort(w, n, sizeof *w, cmp);
    for (int i = 0; i < n; i++) printf("%d.%s%c", i + 1, w[i], i == n - 1 ? '\n' : ',');
    for (int i = 0; i < n; i++) free(w[i]);
    return 0;
}
/* cases
wrong: i + 1, w[i] >>> i, w[i]
case: pear apple|fig => 1.apple,2.fig,3.pear
*/
