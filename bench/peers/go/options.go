package main

import (
	"fmt"
	"math"
	"sync"
	"time"
)

// lattice prices an American put. A block takes the row below it (with one value more) and the left edge of the block to its right,
// and gives its uppermost row and its own left edge.
type lattice struct {
	levels, block int
	gains         [2][]float64
	up, down      float64
}

func newLattice(r *request) (*lattice, error) {
	const spot, strike, rate, volatility, years = 100.0, 105.0, 0.05, 0.2, 1.0
	l := &lattice{levels: int(r.number("n")), block: int(r.number("B"))}
	if l.block == 0 || l.levels == 0 || l.levels%(2*l.block) != 0 {
		return nil, fmt.Errorf("n=%d is not an even multiple of B=%d", l.levels, l.block)
	}
	step := years / float64(l.levels)
	width := volatility * math.Sqrt(step)
	factor, growth := math.Exp(width), math.Exp(rate*step)
	probability := (growth - 1/factor) / (factor - 1/factor)
	l.up, l.down = probability/growth, (1-probability)/growth
	for odd := range l.gains {
		for k := -l.levels/2 - 1; k <= l.levels/2; k++ {
			l.gains[odd] = append(l.gains[odd], strike-spot*math.Exp(width*float64(2*k+odd)))
		}
	}
	return l, nil
}

// gainsAt gives what exercising gains at a level, from a node on.
func (l *lattice) gainsAt(level, node int) []float64 {
	return l.gains[level%2][l.levels/2+1-(level+1)/2+node:]
}

func (l *lattice) step(row []float64, level, node, width int) {
	gains := l.gainsAt(level, node)[:width]
	row = row[:width+1]
	up, down := l.up, l.down
	value := row[0]
	for at, gain := range gains {
		next := row[at+1]
		kept := up*next + down*value
		if kept < gain {
			kept = gain
		}
		row[at], value = kept, next
	}
}

func (l *lattice) leaves(node, count int) []float64 {
	values := make([]float64, count)
	for at, gain := range l.gainsAt(l.levels, node)[:count] {
		values[at] = max(gain, 0)
	}
	return values
}

func (l *lattice) compute(row, column int, values, right []float64) (top, left []float64) {
	left = make([]float64, l.block)
	for step := range l.block {
		width := l.block
		if right == nil {
			width -= step
		}
		l.step(values, (row+1)*l.block-1-step, column*l.block, width)
		left[step] = values[0]
		if right != nil {
			values[l.block] = right[step]
		}
	}
	return values, left
}

func (l *lattice) byLevels() float64 {
	values := l.leaves(0, l.levels+1)
	for level := l.levels - 1; level >= 0; level-- {
		l.step(values, level, 0, level+1)
	}
	return values[0]
}

func (l *lattice) byBlocks() float64 {
	below := make([][]float64, l.levels/l.block)
	for column := range below {
		below[column] = l.leaves(column*l.block, l.block+1)
	}
	for row := len(below) - 1; row >= 0; row-- {
		var edge []float64
		for column := row; column >= 0; column-- {
			below[column], edge = l.compute(row, column, below[column], edge)
		}
	}
	return below[0][0]
}

// The time of as many sequential programs as there are processors, side by side.
func (l *lattice) sideBySide(processors int) time.Duration {
	begin := time.Now()
	var all sync.WaitGroup
	for range processors {
		all.Add(1)
		go func() {
			defer all.Done()
			l.byLevels()
		}()
	}
	all.Wait()
	return time.Since(begin)
}

func (l *lattice) outcome(price float64, elapsed time.Duration, processors int) (outcome, error) {
	begin := time.Now()
	levels := l.byLevels()
	byLevels := time.Since(begin)
	begin = time.Now()
	blocks := l.byBlocks()
	byBlocks := time.Since(begin)
	for _, other := range []float64{levels, blocks} {
		if !(math.Abs(price-other) <= 1e-9) {
			return outcome{}, fmt.Errorf("the price is %v, but %v is right", price, other)
		}
	}
	sequential := min(byLevels, byBlocks).Seconds()
	extra := map[string]any{
		"speed_up":     sequential / elapsed.Seconds(),
		"ceiling":      float64(processors) * sequential / l.sideBySide(processors).Seconds(),
		"by_levels_ns": byLevels.Nanoseconds(), "by_blocks_ns": byBlocks.Nanoseconds(),
	}
	return outcome{ops: 1, time: elapsed, checksum: uint64(math.Round(price * 1e6)), extra: extra}, nil
}

// options has a goroutine for each block; a promise is a channel of one slot.
func options(r *request) (outcome, error) {
	l, err := newLattice(r)
	if err != nil {
		return outcome{}, err
	}
	if r.values["by"] == "sequential" {
		start := time.Now()
		price := l.byLevels()
		return l.outcome(price, time.Since(start), r.processors)
	}
	start := time.Now()
	var all sync.WaitGroup
	// By column: what the block above takes from below; by row: what the block to the left takes from its right. Blocks that can be
	// computed at the same time come together.
	below, right := make([]chan []float64, l.levels/l.block), make([]chan []float64, l.levels/l.block)
	last := len(below) - 1
	for wave := 0; wave <= 2*last; wave++ {
		for row := last; row >= 0; row-- {
			column := 2*last - wave - row
			if column < 0 || column > row {
				continue
			}
			bottom, edge := below[column], right[row]
			top, left := make(chan []float64, 1), make(chan []float64, 1)
			below[column], right[row] = top, left
			all.Add(1)
			go func() {
				defer all.Done()
				var values, next []float64
				if bottom != nil {
					values = <-bottom
				} else {
					values = l.leaves(column*l.block, l.block+1)
				}
				if edge != nil {
					next = <-edge
				}
				values, next = l.compute(row, column, values, next)
				top <- values
				left <- next
			}()
		}
	}
	all.Wait()
	elapsed := time.Since(start)
	root := <-below[0]
	return l.outcome(root[0], elapsed, r.processors)
}
