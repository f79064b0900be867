//go:build unix

package measure

import (
	"runtime"
	"syscall"
	"time"
)

// own is what this process has spent.
type own struct{ cpu, allocs, bytes float64 }

// spent reads it. Programs that have ended count for their CPU.
func spent() own {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	return own{
		cpu:    used(syscall.RUSAGE_SELF) + used(syscall.RUSAGE_CHILDREN),
		allocs: float64(mem.Mallocs),
		bytes:  float64(mem.TotalAlloc),
	}
}

func (o own) minus(p own) own { return own{o.cpu - p.cpu, o.allocs - p.allocs, o.bytes - p.bytes} }

// used returns seconds of CPU.
func used(who int) float64 {
	var usage syscall.Rusage
	if syscall.Getrusage(who, &usage) != nil {
		return 0 // cannot happen for ourselves
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}
