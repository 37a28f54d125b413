package main

import "fmt"

type key struct{ r, c int }

var memo = map[key]int64{}

func paths(r, c int) int64 {
	if r == 0 || c == 0 {
		return 1
	}
	k := key{r, c}
	if v, ok := memo[k]; ok {
		return v
	}
	memo[k] = paths(r-1, c) + paths(r, c-1)
	return memo[k]
}

func main() {
	var r, c int
	for {
		if _, err := fmt.Scanf("%d %d\n", &r, &c); err != nil {
			break
		}
		fmt.Println(paths(r-1, c-1))
	}
}
/* cases
wrong: paths(r, c-1) >>> paths(r-1, c-1)
case: 3 7|16 16 => 28|155117520
*/
