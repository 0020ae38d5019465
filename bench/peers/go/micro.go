package main

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

func share(total, parts uint64) uint64 {
	if parts == 0 || total%parts != 0 {
		panic(fmt.Sprintf("T=%d does not divide total=%d; choose a total that is a multiple of T", parts, total))
	}
	return total / parts
}

func create(n uint64) outcome {
	start := time.Now()
	var all sync.WaitGroup
	for i := uint64(0); i < n; i++ {
		all.Add(1)
		go all.Done()
	}
	all.Wait()
	return outcome{ops: n, time: time.Since(start), checksum: n}
}

func createHandles(n uint64) outcome {
	start := time.Now()
	handles := make([]chan struct{}, n)
	for i := range handles {
		done := make(chan struct{})
		handles[i] = done
		go close(done)
	}
	joined := uint64(0)
	for _, done := range handles {
		<-done
		joined++
	}
	return outcome{ops: n, time: time.Since(start), checksum: joined}
}

func park(n uint64, baseline memory) outcome {
	start := time.Now()
	var inside, all sync.WaitGroup
	var sum atomic.Uint64
	gate := make(chan struct{})
	for i := uint64(0); i < n; i++ {
		inside.Add(1)
		all.Add(1)
		go func() {
			defer all.Done()
			inside.Done()
			<-gate
			sum.Add(1)
		}()
	}
	inside.Wait()
	blocked := time.Since(start)
	now := memoryNow()
	release := time.Now()
	close(gate)
	all.Wait()
	return outcome{ops: n, time: time.Since(start), checksum: sum.Load(), extra: map[string]any{
		"rss_per_thread":         perThread(now.rss, baseline.rss, n),
		"page_tables_per_thread": perThread(now.pageTables, baseline.pageTables, n),
		"block_ns_per_thread":    float64(blocked.Nanoseconds()) / float64(n),
		"release_ns_per_thread":  float64(time.Since(release).Nanoseconds()) / float64(n),
	}}
}

// The time of an operation is processor time, as in the other programs.
func sleepers(n, ms, turns uint64, baseline memory) outcome {
	asked := time.Duration(ms) * time.Millisecond
	before := processorTime()
	late := make([]time.Duration, n)
	var all sync.WaitGroup
	for i := range late {
		all.Add(1)
		go func() {
			defer all.Done()
			for turn := uint64(0); turn < turns; turn++ {
				start := time.Now()
				time.Sleep(asked)
				late[i] = max(late[i], time.Since(start)-asked)
			}
		}()
	}
	now := memoryNow()
	all.Wait()
	spent := processorTime() - before
	slices.Sort(late)
	at := func(share float64) float64 {
		if n == 0 {
			return 0
		}
		return float64(late[int(float64(n)*share)].Nanoseconds())
	}
	return outcome{ops: n * turns, time: spent, checksum: n * turns, extra: map[string]any{
		"rss_per_thread":         perThread(now.rss, baseline.rss, n),
		"page_tables_per_thread": perThread(now.pageTables, baseline.pageTables, n),
		"late_p50_ns":            at(0.5),
		"late_p99_ns":            at(0.99),
	}}
}

func processorTime() time.Duration {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func yields(threads, total uint64) outcome {
	each := share(total, threads)
	start := time.Now()
	var all sync.WaitGroup
	var sum atomic.Uint64
	for t := uint64(0); t < threads; t++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for i := uint64(0); i < each; i++ {
				runtime.Gosched()
			}
			sum.Add(each)
		}()
	}
	all.Wait()
	return outcome{ops: total, time: time.Since(start), checksum: sum.Load()}
}

func pingPongChannel(n uint64) outcome {
	start := time.Now()
	ping, pong, result := make(chan uint64, 1), make(chan uint64, 1), make(chan uint64)
	go func() {
		for i := uint64(0); i < n; i++ {
			pong <- <-ping + 1
		}
	}()
	go func() {
		sum := uint64(0)
		for i := uint64(0); i < n; i++ {
			ping <- i
			sum += <-pong
		}
		result <- sum
	}()
	sum := <-result
	return outcome{ops: n, time: time.Since(start), checksum: sum}
}

func nullFork(n uint64) outcome {
	start := time.Now()
	sum := uint64(0)
	done := make(chan uint64)
	for i := uint64(0); i < n; i++ {
		go func() { done <- 1 }()
		sum += <-done
	}
	return outcome{ops: n, time: time.Since(start), checksum: sum}
}

func signalWait(n uint64) outcome {
	start := time.Now()
	bells := [2]chan struct{}{make(chan struct{}, 1), make(chan struct{}, 1)}
	result := make(chan uint64, 2)
	for me := 0; me < 2; me++ {
		go func(me int) {
			for i := uint64(0); i < n; i++ {
				if me == 0 {
					bells[1] <- struct{}{}
					<-bells[0]
				} else {
					<-bells[1]
					bells[0] <- struct{}{}
				}
			}
			result <- n
		}(me)
	}
	return outcome{ops: 2 * n, checksum: <-result + <-result, time: time.Since(start)}
}

func pingPongCondition(n uint64) outcome {
	start := time.Now()
	var table sync.Mutex
	conditions := [2]*sync.Cond{sync.NewCond(&table), sync.NewCond(&table)}
	turn := 0
	result := make(chan uint64, 2)
	for me := 0; me < 2; me++ {
		go func(me int) {
			turns := uint64(0)
			for i := uint64(0); i < n; i++ {
				table.Lock()
				for turn != me {
					conditions[me].Wait()
				}
				turn = 1 - me
				turns++
				table.Unlock()
				conditions[1-me].Signal()
			}
			result <- turns
		}(me)
	}
	sum := <-result + <-result
	return outcome{ops: n, time: time.Since(start), checksum: sum}
}

// padded keeps neighbours off each other's cache lines, the adjacent-line prefetcher's pairs included.
type padded struct {
	_     [128]byte
	lock  sync.Mutex
	count uint64
	_     [128]byte
}

func lockLocal(threads, total uint64) outcome {
	each := share(total, threads)
	start := time.Now()
	var all sync.WaitGroup
	var sum atomic.Uint64
	counters := make([]padded, threads)
	for t := range counters {
		all.Add(1)
		go func(counter *padded) {
			defer all.Done()
			for i := uint64(0); i < each; i++ {
				counter.lock.Lock()
				counter.count++
				counter.lock.Unlock()
			}
			sum.Add(counter.count)
		}(&counters[t])
	}
	all.Wait()
	return outcome{ops: total, time: time.Since(start), checksum: sum.Load()}
}

func lockGlobal(threads, total uint64, block bool) outcome {
	each := share(total, threads)
	start := time.Now()
	var all sync.WaitGroup
	counter := new(padded)
	for t := uint64(0); t < threads; t++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for i := uint64(0); i < each; i++ {
				counter.lock.Lock()
				counter.count++
				if block {
					runtime.Gosched()
				}
				counter.lock.Unlock()
			}
		}()
	}
	all.Wait()
	return outcome{ops: total, time: time.Since(start), checksum: counter.count}
}

// wakeRemote rings while the waker keeps its processor, so that the sleeper has to wake up on another one.
func wakeRemote(n, gapMicroseconds uint64) outcome {
	start := time.Now()
	gap := time.Duration(gapMicroseconds) * time.Microsecond
	var table sync.Mutex
	ring := sync.NewCond(&table)
	rung := false
	var awake atomic.Bool
	var awakeAt atomic.Int64
	go func() {
		for i := uint64(0); i < n; i++ {
			table.Lock()
			for !rung {
				ring.Wait()
			}
			now := time.Since(start)
			rung = false
			table.Unlock()
			awakeAt.Store(int64(now))
			awake.Store(true)
		}
	}()
	type result struct {
		waited time.Duration
		wakes  uint64
	}
	done := make(chan result)
	go func() {
		var r result
		for i := uint64(0); i < n; i++ {
			for pause := time.Now(); time.Since(pause) < gap; {
			}
			rungAt := time.Since(start)
			table.Lock()
			rung = true
			table.Unlock()
			ring.Signal()
			for !awake.Swap(false) {
			}
			r.waited += time.Duration(awakeAt.Load()) - rungAt
			r.wakes++
		}
		done <- r
	}()
	r := <-done
	return outcome{ops: n, time: r.waited, checksum: r.wakes, extra: map[string]any{"gap_us": gapMicroseconds}}
}
