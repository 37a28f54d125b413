package main

import (
	"fmt"
	"sync"
)

func worker(id int, jobs <-chan int, results chan<- [2]int, wg *sync.WaitGroup) {
	defer wg.Done()
	for j := range jobs {
		c := 0
		for x := j; x != 1; c++ {
			if x%2 == 0 {
				x /= 2
			} else {
				x = 3*x + 1
			}
		}
		results <- [2]int{j, c}
	}
}

func main() {
	var n int
	fmt.Scan(&n)
	jobs, results := make(chan int, n), make(chan [2]int, n)
	var wg sync.WaitGroup
	for w := 0; w < 3; w++ {
		wg.Add(1)
		go worker(w, jobs, results, &wg)
	}
	for i := 1; i <= n; i++ {
		jobs <- i
	}
	close(jobs)
	go func() { wg.Wait(); close(results) }()
	best := [2]int{}
	for r := range results {
		if r[1] > best[1] || r[1] == best[1] && r[0] < best[0] {
			best = r
		}
	}
	fmt.Println(best[0], best[1])
}
/* cases
wrong: x = 3*x + 1 >>> x = x + 1
case: 10 => 9 19
*/
