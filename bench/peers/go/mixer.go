package main

import (
	"fmt"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	samples    = 160
	frameKinds = 16
	late       = 20 * time.Millisecond
	lead       = 10 // frames' times before the first one
)

type (
	coded [samples]byte
	plain [samples]int16
)

func decodeMu(b byte) int16 {
	code := ^b
	size := (int16(code&15)<<3 + 0x84) << (code >> 4 & 7)
	if code&0x80 == 0 {
		return size - 0x84
	}
	return 0x84 - size
}

func decodeA(b byte) int16 {
	code := b ^ 0x55
	segment := code >> 4 & 7
	size := int16(code&15)<<4 + 8
	if segment > 0 {
		size = (size + 0x100) << (segment - 1)
	}
	if code&0x80 == 0 {
		return -size
	}
	return size
}

func encodeMu(sample int16) byte {
	size, sign := int32(sample), byte(0)
	if size < 0 {
		size, sign = -size, 0x80
	}
	size = min(size, 32635) + 0x84
	exponent := bits.Len32(uint32(size)) - 8
	return ^(sign | byte(exponent)<<4 | byte(size>>(exponent+3))&15)
}

func encodeA(sample int16) byte {
	size, sign := int32(sample), byte(0x80)
	if size < 0 {
		size, sign = ^size, 0
	}
	code := size >> 4
	if size >= 256 {
		exponent := bits.Len32(uint32(size)) - 8
		code = int32(exponent)<<4 | size>>(exponent+3)&15
	}
	return (sign | byte(code)) ^ 0x55
}

// hall is what all conferences share.
type hall struct {
	conferences, legs, ticks int
	pace                     time.Duration
	frames                   *[frameKinds]coded
}

func newHall(r *request) (*hall, error) {
	h := &hall{
		conferences: int(r.number("C")), legs: int(r.number("P")), ticks: int(r.number("F")),
		pace: time.Duration(r.number("pace_us")) * time.Microsecond, frames: new([frameKinds]coded),
	}
	if h.conferences == 0 || h.legs == 0 || h.ticks == 0 {
		return nil, fmt.Errorf("C, P and F must be at least 1")
	}
	for frame := range h.frames {
		for at := range h.frames[frame] {
			h.frames[frame][at] = byte(mix(uint64(frame)<<32 | uint64(at)))
		}
	}
	return h, nil
}

func (h *hall) decode(conference, leg, tick int, frame *plain) {
	line := &h.frames[(conference+3*leg+tick)%frameKinds]
	if leg%2 == 0 {
		for at, b := range line {
			frame[at] = decodeMu(b)
		}
	} else {
		for at, b := range line {
			frame[at] = decodeA(b)
		}
	}
}

// mix makes of each frame the sum of the others.
func (h *hall) mix(frames []*plain) {
	var total [samples]int32
	for i := range frames {
		for at, sample := range frames[i] {
			total[at] += int32(sample)
		}
	}
	for i := range frames {
		frame := frames[i]
		for at, sum := range total {
			frame[at] = int16(max(-32768, min(32767, sum-int32(frame[at]))))
		}
	}
}

func (h *hall) write(leg int, frame *plain, line *coded) uint64 {
	if leg%2 == 0 {
		for at, sample := range frame {
			line[at] = encodeMu(sample)
		}
	} else {
		for at, sample := range frame {
			line[at] = encodeA(sample)
		}
	}
	sum := uint64(0)
	for _, b := range line {
		sum += uint64(b)
	}
	return sum
}

func (h *hall) expected() uint64 {
	var sums [frameKinds]uint64
	for place := range sums {
		frames := make([]*plain, h.legs)
		for leg := range frames {
			frames[leg] = new(plain)
			h.decode(place, leg, 0, frames[leg])
		}
		h.mix(frames)
		for leg := range frames {
			sums[place] += h.write(leg, frames[leg], new(coded))
		}
	}
	sum := uint64(0)
	for conference := range h.conferences {
		for tick := range h.ticks {
			sum += sums[(conference+tick)%frameKinds]
		}
	}
	return sum
}

// mixer runs all conferences; room starts a conference's goroutine and gives what its
// legs do to have a frame mixed.
func (h *hall) mixer(room func(h *hall, all *sync.WaitGroup) func(leg, tick int, frame *plain)) outcome {
	start := time.Now()
	var all sync.WaitGroup
	heard := make([][]uint16, h.conferences*h.legs)
	var sum atomic.Uint64
	for conference := range h.conferences {
		exchange := room(h, &all)
		phase := h.pace * time.Duration(conference) / time.Duration(h.conferences)
		for leg := range h.legs {
			all.Add(1)
			go func() {
				defer all.Done()
				var line coded
				frame := new(plain)
				written, buckets := uint64(0), make([]uint16, h.ticks)
				for tick := range buckets {
					since := time.Now()
					if h.pace > 0 {
						due := start.Add(h.pace*time.Duration(tick+lead) + phase)
						time.Sleep(due.Sub(since))
						since = due
					}
					h.decode(conference, leg, tick, frame)
					exchange(leg, tick, frame)
					written += h.write(leg, frame, &line)
					buckets[tick] = uint16(bucketOf(uint64(time.Since(since))))
				}
				sum.Add(written)
				heard[conference*h.legs+leg] = buckets
			}()
		}
	}
	all.Wait()
	elapsed := time.Since(start)
	counts, limit, tooLate := make([]uint64, 1<<12), uint16(bucketOf(uint64(late))), 0
	for _, buckets := range heard {
		for _, bucket := range buckets {
			counts[bucket]++
			if bucket > limit {
				tooLate++
			}
		}
	}
	frames := h.conferences * h.legs * h.ticks
	extra := map[string]any{"late_share": float64(tooLate) / float64(frames)}
	quantiles(counts, extra)
	return outcome{ops: uint64(frames), time: elapsed, checksum: sum.Load(), extra: extra}
}

// byPromise: a frame, filled in place, goes through channels of one slot both ways.
func byPromise(h *hall, all *sync.WaitGroup) func(leg, tick int, frame *plain) {
	inputs, outputs := make([]chan *plain, h.legs), make([]chan *plain, h.legs)
	for leg := range inputs {
		inputs[leg], outputs[leg] = make(chan *plain, 1), make(chan *plain, 1)
	}
	all.Add(1)
	go func() {
		defer all.Done()
		frames := make([]*plain, h.legs)
		for range h.ticks {
			for leg := range frames {
				frames[leg] = <-inputs[leg]
			}
			h.mix(frames)
			for leg := range frames {
				outputs[leg] <- frames[leg]
			}
		}
	}()
	return func(leg, _ int, frame *plain) {
		inputs[leg] <- frame
		<-outputs[leg]
	}
}

// byYield: whose turn a frame is, is the parity of a state that is polled.
func byYield(h *hall, all *sync.WaitGroup) func(leg, tick int, frame *plain) {
	frames, states := make([]*plain, h.legs), make([]atomic.Uint64, h.legs)
	await := func(leg int, state uint64) {
		for states[leg].Load() != state {
			runtime.Gosched()
		}
	}
	all.Add(1)
	go func() {
		defer all.Done()
		for tick := range uint64(h.ticks) {
			for leg := range states {
				await(leg, 2*tick+1)
			}
			h.mix(frames)
			for leg := range states {
				states[leg].Store(2*tick + 2)
			}
		}
	}()
	return func(leg, tick int, frame *plain) {
		frames[leg] = frame
		states[leg].Store(2*uint64(tick) + 1)
		await(leg, 2*uint64(tick)+2)
	}
}

func mixerOnce(r *request, h *hall) outcome {
	if r.values["by"] == "yield" {
		return h.mixer(byYield)
	}
	return h.mixer(byPromise)
}

// Runs that a number of conferences has to keep its frames in time: as `RUNS` in bench/src/bodies/mixer.rs.
const runsOfANumber = 3

// mixerLoad looks for the largest number of conferences that keeps p99 under 20 ms.
func mixerLoad(r *request, h hall) (outcome, error) {
	good, bad, best := 0, 0, outcome{extra: map[string]any{}}
	lateRuns, lateInAll := 0, 0
	for h.conferences > 0 && (good == 0 || bad == 0 || bad-good > (good+19)/20) {
		out := mixerOnce(r, &h)
		if out.checksum != h.expected() {
			return outcome{}, fmt.Errorf("C=%d: the sum is %d, but %d is right", h.conferences, out.checksum, h.expected())
		}
		if out.extra["p99_ns"].(uint64) < uint64(late) {
			good, best = h.conferences, out
		} else {
			lateRuns++
			lateInAll++
			if lateRuns < runsOfANumber {
				continue
			}
			bad = h.conferences
		}
		lateRuns = 0
		switch {
		case good == 0:
			h.conferences = bad / 2
		case bad == 0:
			h.conferences = 2 * good
		default:
			h.conferences = good + (bad-good)/2
		}
	}
	best.extra["conferences"] = good
	best.extra["late_runs"] = lateInAll
	best.checksum = 1
	return best, nil
}
