// Command raddle-bench-go runs the workloads on goroutines.
//
// raddle-bench-go WORKLOAD key=value... --processors N [--repeat R] [--handles]
// raddle-bench-go serve N
//
// The second form is the echo server for the load generator, on N processors.
// It prints one JSON object, as the other programs of the suite do. With --handles each goroutine of create has a channel of its
// own to be waited for on; without, a WaitGroup counts them, which is what Go programs do.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

type outcome struct {
	ops      uint64
	time     time.Duration
	checksum uint64
	extra    map[string]any
}

type request struct {
	workload   string
	keys       []string
	values     map[string]string
	processors int
	repeat     int
	handles    bool
	baseline   memory
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		fmt.Fprintln(os.Stderr, serveEcho(os.Args[2:]))
		os.Exit(1)
	}
	result, err := serve(os.Args[1:])
	if err != nil {
		result = map[string]any{"error": err.Error()}
	}
	line, _ := json.Marshal(result)
	fmt.Println(string(line))
	var failed failure
	if errors.As(err, &failed) {
		os.Exit(1)
	} else if err != nil {
		// It did not run what was asked for.
		os.Exit(2)
	}
}

// failure is what a run said that ended with a panic.
type failure struct{ error }

// serve runs the workload inside a goroutine and turns a panic of its own into an error.
func serve(words []string) (map[string]any, error) {
	r, err := parse(words)
	if err != nil {
		return nil, err
	}
	runtime.GOMAXPROCS(r.processors)
	r.baseline = memoryNow()
	type answer struct {
		out outcome
		err error
	}
	done := make(chan answer)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- answer{err: failure{fmt.Errorf("%v", p)}}
			}
		}()
		var a answer
		for i := 0; i < r.repeat && a.err == nil; i++ {
			a.out, a.err = run(r)
		}
		done <- a
	}()
	a := <-done
	if a.err != nil {
		return nil, a.err
	}
	extra := map[string]any{"settings": settings(r)}
	for key, value := range a.out.extra {
		extra[key] = value
	}
	return map[string]any{
		"workload": r.workload, "args": r.args(), "ops": a.out.ops, "ns": a.out.time.Nanoseconds(),
		"rss_kib": memoryNow().peak, "checksum": a.out.checksum, "extra": extra,
	}, nil
}

func settings(r *request) string {
	join := "a WaitGroup"
	if r.handles {
		join = "a channel per goroutine"
	}
	return fmt.Sprintf("%s, GOMAXPROCS=%d, default GC, waits by %s", runtime.Version(), r.processors, join)
}

func parse(words []string) (*request, error) {
	if len(words) == 0 {
		return nil, fmt.Errorf("no workload named; pass WORKLOAD key=value... --processors N")
	}
	r := &request{workload: words[0], values: map[string]string{}, repeat: 2}
	for i := 1; i < len(words); i++ {
		switch word := words[i]; word {
		case "--handles":
			r.handles = true
		case "--processors", "--repeat":
			i++
			n := 0
			if i < len(words) {
				n, _ = strconv.Atoi(words[i])
			}
			if n < 1 {
				return nil, fmt.Errorf("`%s` needs a whole number of at least 1", word)
			}
			if word == "--repeat" {
				r.repeat = n
			} else {
				r.processors = n
			}
		default:
			key, value, ok := strings.Cut(word, "=")
			if !ok {
				return nil, fmt.Errorf("`%s` is neither an option nor of the form key=value", word)
			}
			r.keys = append(r.keys, key)
			r.values[key] = value
		}
	}
	if r.processors == 0 {
		return nil, fmt.Errorf("the number of processors is missing; pass --processors N")
	}
	return r, nil
}

func (r *request) args() string {
	var pairs []string
	for _, key := range r.keys {
		pairs = append(pairs, key+"="+r.values[key])
	}
	return strings.Join(pairs, " ")
}

// number gives the value of a numeric argument; k and M are accepted as suffixes.
func (r *request) number(key string) uint64 {
	text, factor := r.values[key], uint64(1)
	switch {
	case strings.HasSuffix(text, "k"):
		text, factor = text[:len(text)-1], 1000
	case strings.HasSuffix(text, "M"):
		text, factor = text[:len(text)-1], 1000000
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("`%s=%s` is not a whole number", key, r.values[key]))
	}
	return n * factor
}

func run(r *request) (outcome, error) {
	n := r.number
	switch r.workload {
	case "create":
		if r.handles {
			return createHandles(n("N")), nil
		}
		return create(n("N")), nil
	case "park":
		return park(n("N"), r.baseline), nil
	case "sleep":
		return sleepers(n("N"), n("ms"), n("turns"), r.baseline), nil
	case "yield":
		return yields(n("T"), n("total")), nil
	case "pp_chan":
		return pingPongChannel(n("n")), nil
	case "pp_cond":
		return pingPongCondition(n("n")), nil
	case "null_fork":
		return nullFork(n("n")), nil
	case "signal_wait":
		return signalWait(n("n")), nil
	case "lock_local":
		return lockLocal(n("T"), n("total")), nil
	case "lock_global":
		return lockGlobal(n("T"), n("total"), false), nil
	case "lock_block":
		return lockGlobal(n("T"), n("total"), true), nil
	case "wake_remote":
		if r.processors < 2 {
			return outcome{}, fmt.Errorf("not offered: it needs a second processor")
		}
		return wakeRemote(n("n"), n("gap_us")), nil
	case "city":
		return city(n("N"), n("K"), n("C"))
	case "eratosthenes":
		return eratosthenes(n("N")), nil
	case "mandelbrot":
		return mandelbrot(n("N"), n("C"), n("K")), nil
	case "matrix":
		return matrix(int(n("n")), int(n("M"))), nil
	case "news":
		return news(n("N"), n("M"), n("K")), nil
	case "producer":
		return producer(n("N"), n("C"), n("K")), nil
	case "tokenring":
		return tokenRing(n("N"), n("K")), nil
	case "skynet", "fib", "nqueens":
		if r.values["by"] != "spawn" {
			return outcome{}, fmt.Errorf("not offered: Go has no fork-join call; see by=spawn")
		}
		return forkJoin(r.workload, r), nil
	case "radix":
		return radix(int(n("N")), int(n("T")), uint(n("r")))
	case "packet", "packet-copy", "packet-cache", "packet-bimodal":
		return packetTraffic(r)
	case "options":
		return options(r)
	case "mixer", "mixer-load":
		h, err := newHall(r)
		switch {
		case err != nil:
			return outcome{}, err
		case r.workload == "mixer":
			return mixerOnce(r, h), nil
		}
		return mixerLoad(r, *h)
	}
	return outcome{}, fmt.Errorf("not offered: there is no workload `%s`", r.workload)
}
