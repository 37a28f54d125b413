package main

import (
	"context"
	"fmt"
	"time"
)

func produce(ctx context.Context, n int) <-chan int {
	ch := make(chan int)
	go func() {
		defer close(ch)
		for i := 0; i < n; i++ {
			select {
			case ch <- i * i:
			case <-ctx.Done():
				return
			}
		}
	}()
	return ch
}

func main() {
	var n, limit int
	fmt.Scan(&n, &limit)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	sum := 0
loop:
	for v := range produce(ctx, n) {
		switch {
		case v > limit:
			cancel()
			break loop
		default:
			sum += v
		}
	}
	fmt.Println(sum)
}
/* cases
wrong: v > limit >>> v >= limit
case: 10 16 => 30
*/
