package main

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"time"
)

func forkJoin(workload string, r *request) outcome {
	start := time.Now()
	result := make(chan uint64, 1)
	switch workload {
	case "skynet":
		go skynet(0, r.number("N"), result)
	case "fib":
		result <- fib(r.number("n"))
	case "nqueens":
		n := min(r.number("n"), 31)
		go nqueens(queens{board: 1<<n - 1}, result)
	}
	sum := <-result
	return outcome{ops: 1, time: time.Since(start), checksum: sum}
}

func skynet(first, leaves uint64, result chan<- uint64) {
	if leaves <= 1 {
		result <- first
		return
	}
	sums := make(chan uint64, 10)
	for child := uint64(0); child < 10; child++ {
		go skynet(first+child*(leaves/10), leaves/10, sums)
	}
	sum := uint64(0)
	for child := 0; child < 10; child++ {
		sum += <-sums
	}
	result <- sum
}

func fib(n uint64) uint64 {
	if n < 2 {
		return n
	}
	left := make(chan uint64, 1)
	go func() { left <- fib(n - 1) }()
	right := fib(n - 2)
	return <-left + right
}

// queens holds what the queens placed so far attack in the next row: columns and diagonals.
type queens struct{ board, columns, left, right uint32 }

func nqueens(q queens, result chan<- uint64) {
	if q.columns == q.board {
		result <- 1
		return
	}
	safe := q.board &^ (q.columns | q.left | q.right)
	children := bits.OnesCount32(safe)
	sums := make(chan uint64, children)
	for ; safe != 0; safe &= safe - 1 {
		bit := safe & -safe
		go nqueens(queens{q.board, q.columns | bit, (q.left | bit) << 1, (q.right | bit) >> 1}, sums)
	}
	sum := uint64(0)
	for i := 0; i < children; i++ {
		sum += <-sums
	}
	result <- sum
}

func radix(n, threads int, width uint) (outcome, error) {
	if width < 1 || width > 16 {
		return outcome{}, fmt.Errorf("r=%d: pass 1 to 16 bits", width)
	}
	if n == 0 || threads == 0 || n%threads != 0 {
		return outcome{}, fmt.Errorf("T=%d does not divide N=%d into equal parts", threads, n)
	}
	generation := time.Now()
	from, to := make([]uint32, n), make([]uint32, n)
	for i, x := 0, uint32(2463534242); i < n; i++ {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		from[i] = x
	}
	generated := time.Since(generation)
	start := time.Now()
	part, mask := n/threads, uint32(1)<<width-1
	places := make([][]uint32, threads)
	var all sync.WaitGroup
	for shift := uint(0); shift < 32; shift += width {
		for t := range places {
			all.Add(1)
			go func(t int, keys []uint32) {
				defer all.Done()
				counts := make([]uint32, mask+1)
				for _, key := range keys {
					counts[key>>shift&mask]++
				}
				places[t] = counts
			}(t, from[t*part:(t+1)*part])
		}
		all.Wait()
		place := uint32(0)
		for digit := range places[0] {
			for t := range places {
				place, places[t][digit] = place+places[t][digit], place
			}
		}
		for t := range places {
			all.Add(1)
			go func(keys, places, to []uint32) {
				defer all.Done()
				for _, key := range keys {
					digit := key >> shift & mask
					to[places[digit]] = key
					places[digit]++
				}
			}(from[t*part:(t+1)*part], places[t], to)
		}
		all.Wait()
		from, to = to, from
	}
	elapsed := time.Since(start)
	if !slices.IsSorted(from) {
		return outcome{}, errors.New("the keys are not sorted")
	}
	checksum := uint32(0)
	for _, key := range from {
		checksum = checksum*31 + key
	}
	extra := map[string]any{"generation_ns": generated.Nanoseconds()}
	return outcome{ops: 1, time: elapsed, checksum: uint64(checksum), extra: extra}, nil
}
