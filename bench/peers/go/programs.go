package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// city: the channels are the stores; the river's has room for all the water that will be used, so that it never waits.
func city(houses, units, store uint64) (outcome, error) {
	start := time.Now()
	needed := houses * units
	water := make(chan struct{}, 2*needed)
	energy := make(chan struct{}, store)
	go func() {
		for i := uint64(0); i < 2*needed; i++ {
			water <- struct{}{}
		}
	}()
	go func() {
		for i := uint64(0); i < needed; i++ {
			<-water
			energy <- struct{}{}
		}
	}()
	var all sync.WaitGroup
	var electricityUsed, waterUsed atomic.Uint64
	for h := uint64(0); h < houses; h++ {
		all.Add(1)
		go func() {
			defer all.Done()
			e, w := uint64(0), uint64(0)
			for i := uint64(0); i < units; i++ {
				<-energy
				e++
				<-water
				w++
			}
			electricityUsed.Add(e)
			waterUsed.Add(w)
		}()
	}
	all.Wait()
	elapsed := time.Since(start)
	e, w := electricityUsed.Load(), waterUsed.Load()
	if e != w {
		return outcome{}, fmt.Errorf("%d units of electricity but %d of water were used", e, w)
	}
	return outcome{ops: 1, time: elapsed, checksum: e}, nil
}

// stage keeps its first number as its prime and sends the sum of it and of all later stages' primes.
func stage(in <-chan uint64, result chan<- uint64) {
	prime := <-in
	if prime == 0 {
		result <- 0
		return
	}
	out, later := make(chan uint64, 16), make(chan uint64, 1)
	go stage(out, later)
	for {
		number := <-in
		if number == 0 || number%prime != 0 {
			out <- number
		}
		if number == 0 {
			result <- prime + <-later
			return
		}
	}
}

func eratosthenes(limit uint64) outcome {
	start := time.Now()
	first, result := make(chan uint64, 16), make(chan uint64, 1)
	go stage(first, result)
	go func() {
		for number := uint64(2); number <= limit; number++ {
			first <- number
		}
		first <- 0
	}()
	sum := <-result
	return outcome{ops: 1, time: time.Since(start), checksum: sum}
}

func mandelbrotRow(row, rows, columns, limit uint64) uint64 {
	ci := -1.25 + 2.5*float64(row)/float64(rows)
	total := uint64(0)
	for column := uint64(0); column < columns; column++ {
		cr := -2.0 + 2.5*float64(column)/float64(columns)
		re, im := 0.0, 0.0
		for i := uint64(0); i < limit; i++ {
			// The conversions forbid fused multiply-adds, which would change the checksum on some architectures.
			re2, im2 := float64(re*re), float64(im*im)
			if re2+im2 > 4.0 {
				break
			}
			im = float64(2.0*re*im) + ci
			re = re2 - im2 + cr
			total++
		}
	}
	return total
}

func mandelbrot(rows, columns, limit uint64) outcome {
	start := time.Now()
	var all sync.WaitGroup
	var sum atomic.Uint64
	for row := uint64(0); row < rows; row++ {
		all.Add(1)
		go func(row uint64) {
			defer all.Done()
			sum.Add(mandelbrotRow(row, rows, columns, limit))
		}(row)
	}
	all.Wait()
	return outcome{ops: 1, time: time.Since(start), checksum: sum.Load()}
}

func matrix(n, threads int) outcome {
	a, b, c := make([]float64, n*n), make([]float64, n*n), make([]float64, n*n)
	for i := 0; i < n; i++ {
		for j := 0; j < n; j++ {
			a[i*n+j] = float64((i + j) % 7)
			b[i*n+j] = float64((i * j) % 5)
		}
	}
	start := time.Now()
	var all sync.WaitGroup
	for t := 0; t < threads; t++ {
		all.Add(1)
		go func(first int) {
			defer all.Done()
			for i := first; i < n; i += threads {
				row := a[i*n : (i+1)*n]
				for j := 0; j < n; j++ {
					sum := 0.0
					for k, x := range row {
						sum += x * b[k*n+j]
					}
					c[i*n+j] = sum
				}
			}
		}(t)
	}
	all.Wait()
	elapsed := time.Since(start)
	sum := 0.0
	for _, x := range c {
		sum += x
	}
	return outcome{ops: 1, time: elapsed, checksum: uint64(sum)}
}

func news(customers, reporters, items uint64) outcome {
	start := time.Now()
	var lock sync.Mutex
	fresh, allRead := sync.NewCond(&lock), sync.NewCond(&lock)
	item, published, unread := uint64(0), uint64(0), uint64(0)
	var all sync.WaitGroup
	var total atomic.Uint64
	for c := uint64(0); c < customers; c++ {
		all.Add(1)
		go func() {
			defer all.Done()
			sum := uint64(0)
			for seen := uint64(0); seen < reporters*items; seen++ {
				lock.Lock()
				for published == seen {
					fresh.Wait()
				}
				sum += item
				unread--
				last := unread == 0
				lock.Unlock()
				if last {
					allRead.Signal()
				}
			}
			total.Add(sum)
		}()
	}
	for r := uint64(0); r < reporters; r++ {
		all.Add(1)
		go func(reporter uint64) {
			defer all.Done()
			for i := uint64(0); i < items; i++ {
				lock.Lock()
				for unread > 0 {
					allRead.Wait()
				}
				item = reporter*items + i
				published++
				unread = customers
				lock.Unlock()
				fresh.Broadcast()
			}
		}(r)
	}
	all.Wait()
	return outcome{ops: 1, time: time.Since(start), checksum: total.Load()}
}

func producer(pairs, slots, each uint64) outcome {
	start := time.Now()
	buffer := make(chan uint64, slots)
	var all sync.WaitGroup
	var total atomic.Uint64
	for p := uint64(0); p < pairs; p++ {
		all.Add(2)
		go func() {
			defer all.Done()
			sum := uint64(0)
			for i := uint64(0); i < each; i++ {
				sum += <-buffer
			}
			total.Add(sum)
		}()
		go func() {
			defer all.Done()
			for i := uint64(0); i < each; i++ {
				buffer <- i
			}
		}()
	}
	all.Wait()
	return outcome{ops: pairs * each, time: time.Since(start), checksum: total.Load()}
}

func tokenRing(threads, rounds uint64) outcome {
	start := time.Now()
	slots := make([]chan uint64, threads)
	for i := range slots {
		slots[i] = make(chan uint64, 1)
	}
	slots[0] <- 0
	result := make(chan uint64, 1)
	var all sync.WaitGroup
	for i := uint64(0); i < threads; i++ {
		all.Add(1)
		go func(i uint64) {
			defer all.Done()
			in, out := slots[i], slots[(i+1)%threads]
			for round := uint64(1); round <= rounds; round++ {
				token := <-in + 1
				if round < rounds || i+1 < threads {
					out <- token
				} else {
					result <- token
				}
			}
		}(i)
	}
	all.Wait()
	return outcome{ops: threads * rounds, time: time.Since(start), checksum: <-result}
}
