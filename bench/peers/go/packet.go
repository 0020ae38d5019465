package main

import (
	"bytes"
	"fmt"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	packets    = 10
	stateWords = 4 << 20
	partWords  = 8 << 10
	lineWords  = 8
	sumBits    = 20
	tooMany    = 1_500_000 // in flight; their buffers take 4 GB
)

// traffic is what spawners and goroutines of the packet workloads share. A goroutine notes its latency (as a bucket) and its sum in a
// word of its own.
type traffic struct {
	kind            string
	count, spawners uint64
	work, gap       time.Duration
	packets         [packets][]byte
	state           []uint64
	notes           []uint32
	_               [128]byte
	ended           atomic.Uint64
	_               [128]byte
	finished        chan struct{}
}

func mix(seed uint64) uint64 {
	z := (seed + 1) * 0x9E3779B97F4A7C15
	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
	z = (z ^ (z >> 27)) * 0x94D049BB133111EB
	return z ^ (z >> 31)
}

func isLong(number uint64) bool { return mix(number)%100 == 0 }

// bucketOf gives the bucket of a latency; a bucket is at most a 64th of its value wide.
func bucketOf(ns uint64) uint32 {
	shift := max(bits.Len64(ns)-7, 0)
	return uint32(shift<<6) + uint32(ns>>shift)
}

func bucketLow(bucket uint64) uint64 {
	if bucket < 128 {
		return bucket
	}
	shift := bucket>>6 - 1
	return (bucket - shift<<6) << shift
}

// quantiles adds the percentiles of latencies that are counted by bucket.
func quantiles(counts []uint64, extra map[string]any) {
	total := uint64(0)
	for _, count := range counts {
		total += count
	}
	at := func(num, den uint64) uint64 {
		wanted, sum := max((total*num+den-1)/den, 1), uint64(0)
		for bucket, count := range counts {
			if sum += count; sum >= wanted {
				return bucketLow(uint64(bucket))
			}
		}
		return 0
	}
	extra["p50_ns"], extra["p99_ns"], extra["p9999_ns"] = at(1, 2), at(99, 100), at(9999, 10000)
}

func newTraffic(r *request) (*traffic, error) {
	t := &traffic{
		kind: r.workload, count: r.number("N"), spawners: r.number("spawners"),
		work: time.Duration(r.number("work")), gap: time.Duration(r.number("gap")), finished: make(chan struct{}),
	}
	if t.spawners == 0 {
		return nil, fmt.Errorf("spawners=0: at least one goroutine must spawn")
	}
	for number := range t.packets {
		packet := make([]byte, 2048+102*number)
		for at := range packet {
			packet[at] = 'a' + byte(at%26)
			if (7*at+number)%61 == 0 {
				packet[at] = '\n'
			}
		}
		t.packets[number] = packet
	}
	if t.kind == "packet-cache" {
		t.state = make([]uint64, stateWords)
		for i := range t.state {
			t.state[i] = uint64(i) / lineWords % 7
		}
	}
	t.notes = make([]uint32, t.count)
	return t, nil
}

func (t *traffic) handle(number uint64, since time.Time, buffer []byte) {
	if t.kind == "packet-copy" {
		buffer = bytes.Clone(t.packets[number%packets])
	}
	sum := uint64(bytes.Count(buffer, []byte{'\n'}))
	work := t.work
	switch t.kind {
	case "packet-cache":
		part := mix(number) % (stateWords / partWords) * partWords
		words := t.state[part : part+partWords]
		for i := 0; i < partWords; i += lineWords {
			sum += words[i]
		}
	case "packet-bimodal":
		work = time.Microsecond
		if isLong(number) {
			work = 500 * time.Microsecond
		}
	}
	if work > 0 {
		for begin := time.Now(); time.Since(begin) < work; {
		}
	}
	t.notes[number] = bucketOf(uint64(time.Since(since)))<<sumBits | uint32(sum)
	if t.ended.Add(1) == t.count {
		close(t.finished)
	}
}

func packetTraffic(r *request) (outcome, error) {
	t, err := newTraffic(r)
	if err != nil {
		return outcome{}, err
	}
	var most atomic.Uint64
	spawned := make([]atomic.Uint64, t.spawners)
	start := time.Now()
	spawn := func(spawner uint64) {
		first, last := t.count*spawner/t.spawners, t.count*(spawner+1)/t.spawners
		for number := first; number < last; number++ {
			var since time.Time
			if t.gap > 0 {
				since = start.Add(t.gap * time.Duration(number))
				for time.Now().Before(since) {
					runtime.Gosched()
				}
			}
			var buffer []byte
			if t.kind != "packet-copy" {
				buffer = bytes.Clone(t.packets[number%packets])
			}
			if t.gap == 0 {
				since = time.Now()
			}
			go t.handle(number, since, buffer)
			if count := number - first + 1; count%64 == 0 {
				spawned[spawner].Store(count)
				flying := -t.ended.Load()
				for i := range spawned {
					flying += spawned[i].Load()
				}
				if int64(flying) > int64(most.Load()) {
					most.Store(flying)
				}
				if most.Load() >= tooMany {
					return
				}
			}
		}
	}
	var spawners sync.WaitGroup
	for spawner := range t.spawners {
		spawners.Add(1)
		go func() {
			defer spawners.Done()
			spawn(spawner)
		}()
	}
	spawners.Wait()
	if most.Load() >= tooMany {
		return outcome{}, fmt.Errorf("not offered: %d packets in flight, which nothing bounds; they would fill the memory", tooMany)
	}
	if t.count > 0 {
		<-t.finished
	}
	elapsed := time.Since(start)
	counts, sum := make([]uint64, 1<<12), uint64(0)
	for number, note := range t.notes {
		sum += uint64(note & (1<<sumBits - 1))
		if t.kind != "packet-bimodal" || !isLong(uint64(number)) {
			counts[note>>sumBits]++
		}
	}
	extra := map[string]any{"in_flight": most.Load()}
	quantiles(counts, extra)
	return outcome{ops: t.count, time: elapsed, checksum: sum, extra: extra}, nil
}
