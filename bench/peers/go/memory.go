package main

import (
	"os"
	"strconv"
	"strings"
)

// memory holds sizes in KiB at one moment.
type memory struct{ rss, peak, pageTables uint64 }

func memoryNow() memory {
	text, _ := os.ReadFile("/proc/self/status")
	field := func(name string) uint64 {
		for _, line := range strings.Split(string(text), "\n") {
			if rest, ok := strings.CutPrefix(line, name+":"); ok {
				n, _ := strconv.ParseUint(strings.Fields(rest)[0], 10, 64)
				return n
			}
		}
		return 0
	}
	return memory{field("VmRSS"), field("VmHWM"), field("VmPTE")}
}

func perThread(now, before, n uint64) float64 {
	if now < before || n == 0 {
		return 0
	}
	return float64(now-before) * 1024 / float64(n)
}
