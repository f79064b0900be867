// Package daemon is what every throwaway server of a test or a measurement needs: a
// user who may run it, and a port.
package daemon

import (
	"math/rand/v2"
	"net"
	"strconv"
)

// FreePort finds a port below the range that the kernel hands to clients, so that it
// is still free when a stopped server starts again.
func FreePort() int {
	for {
		port := 20000 + rand.IntN(12000)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			_ = l.Close() // it has accepted nothing
			return port
		}
	}
}
