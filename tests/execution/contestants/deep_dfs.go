package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime/debug"
)

var adj [][]int
var size []int

func dfs(v, p int) int {
	size[v] = 1
	for _, u := range adj[v] {
		if u != p {
			size[v] += dfs(u, v)
		}
	}
	return size[v]
}

func main() {
	debug.SetMaxStack(1 << 29)
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	var n int
	fmt.Fscan(in, &n)
	adj, size = make([][]int, n), make([]int, n)
	for i := 1; i < n; i++ {
		adj[i-1] = append(adj[i-1], i)
		adj[i] = append(adj[i], i-1)
	}
	fmt.Println(dfs(0, -1), size[n-1])
}
/* cases
wrong: size[v] += dfs(u, v) >>> dfs(u, v)
case: 200000 => 200000 1
*/
